// SPDX-License-Identifier: Apache-2.0
//! Tests of which thread had an id.

use hindsight_testkit::{Script, EPOCH};

use super::*;

/// Thread 7 records from 100 ns on, into its ring with this number.
fn from_100(part: u32) -> Trace {
    let mut s = Script::new("p");
    let thread = s.thread(7, "later");
    s.header(thread).part = part;
    s.at(thread, 100).extension(Extension::Started, &[0]);
    s.stop_at(1_000);
    Trace::decode("t".as_ref(), &s.encode()).unwrap()
}

/// The kernel gives ids of ended threads to new ones.
#[test]
fn a_thread_that_began_later_is_not_the_one_that_is_named() {
    let trace = from_100(0);
    let before = named(&trace, 7, EPOCH + 50);
    assert_eq!((before.thread, before.traced), (None, false));
    assert_eq!(before.missing, Some(Missing::BeganLater));
    assert!(before.key.is_none());
    let then = named(&trace, 7, EPOCH + 200);
    assert_eq!(then.thread.as_deref(), Some("later"));
    assert!(then.traced);
}

#[test]
fn a_thread_whose_older_rings_are_missing_may_be_the_one_that_is_named() {
    let named = named(&from_100(3), 7, EPOCH + 50);
    assert_eq!(named.thread.as_deref(), Some("later"));
    assert!(named.key.is_some());
}
