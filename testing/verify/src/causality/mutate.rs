// SPDX-License-Identifier: Apache-2.0
//! Whether the judge can fail: truths that are changed a little must not be what is recorded.

use std::collections::BTreeMap;

use hindsight_causality::{Graph, Reason, Session};

use super::judge::judge;
use super::plan::{Plan, USER};
use super::truth::{Link, Place, Truth};

/// Changes the truth of a program without findings in three ways for each reason of an edge. Returns the changes that the
/// judge has not noticed, in words, and the number of all.
pub(super) fn unnoticed(
    session: &Session,
    graph: &Graph,
    plan: &Plan,
    truth: &Truth,
) -> (Vec<String>, u64) {
    let mut first: BTreeMap<Reason, &Link> = BTreeMap::new();
    for link in truth.links.keys() {
        first.entry(link.reason).or_insert(link);
    }
    let (mut unnoticed, mut count) = (Vec::new(), 0);
    let mut change =
        |what: &str, link: &Link, changed: Truth, is_noticed: fn(usize, usize) -> bool| {
            let verdict = judge(session, graph, plan, &changed);
            count += 1;
            if !is_noticed(verdict.wrong.len(), verdict.missing.len()) {
                unnoticed.push(format!("{what}: {link}"));
            }
        };
    for link in first.into_values() {
        let count = truth.links[link];
        let mut more = truth.clone();
        more.links.insert(link.clone(), count + 1);
        change("one more", link, more, |_, missing| missing == 1);
        let mut other = truth.clone();
        other.links.remove(link);
        // Threads that meet may wake each other more often than that is certain.
        let may_be = matches!(link.reason, Reason::Wake | Reason::Lock);
        if !may_be {
            change("one less", link, other.clone(), |wrong, _| wrong > 0);
        }
        let elsewhere = Link {
            to: Place::Thread(USER.to_owned()),
            ..link.clone()
        };
        other.links.insert(elsewhere, count);
        change("another end", link, other, |_, missing| missing > 0);
    }
    (unnoticed, count)
}
