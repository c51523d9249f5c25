// SPDX-License-Identifier: Apache-2.0
//! Scenes that are not ideal, each in one way.

use hindsight_trace_format::container::{Reader, SectionKind};
use hindsight_trace_format::slot::Extension;

use super::notes::{stall, stall_in, Notes, MAIN, MS, REASON, STALL_NS, US, WATCHDOG, WORKER};
use crate::{Recorder, Script, ThreadIndex};

/// Identity of the lock that [`untraced_owner`], [`many_short_messages`] and [`lock_chain`] wait for.
const LOCK: u64 = 0x5564_0010;

/// [`stall`] in rings of 4 KiB: both have wrapped, and the entries of the outermost methods are overwritten. The
/// stall itself is whole.
pub fn wrapped() -> Script {
    stall_in(12, 600, None)
}

/// [`stall`], but only the main thread is traced. Its ring names the owner of the lock: thread 4217, which has no ring.
pub fn untraced_owner() -> Script {
    let mut s = Script::new("com.example.notes");
    let notes = Notes::new(&mut s);
    let main = s.thread(MAIN, "main");
    s.process.reason = REASON.to_owned();
    s.process.raised_by = WATCHDOG;
    let mut r = s.at(main, 0);
    notes.start_main(&mut r);
    notes.frames(&mut r);
    notes.tap(&mut r, |r| {
        r.extension(Extension::LockWait, &[u64::from(WORKER), LOCK])
            .after(STALL_NS)
            .extension(Extension::WokenBy, &[u64::from(WORKER)]);
    });
    let end = r.now();
    notes.frame(&mut r);
    notes.idle_until_the_end(&mut r);
    s.stop_at(end + 2 * MS);
    s
}

/// [`stall`] with thread ids that repeat. The main thread detaches and attaches again as "Shutdown thread", which gives
/// it a second ring with the same id, 4200. Thread id 4231 is first "http-1", which ends, then "http-2".
pub fn repeated_tid() -> Script {
    let mut s = stall();
    let shutdown = s.method("java.lang.Shutdown.shutdown", "()V");
    let hook = s.method("com.example.notes.NotesApp$1.run", "()V");
    let fetch = s.method("com.example.notes.Http.fetch", "(Ljava/lang/String;)V");
    let upload = s.method("com.example.notes.Http.upload", "(Ljava/lang/String;)V");
    let end = s.stopped_ns();
    s.end_thread(ThreadIndex::FIRST, end + MS / 2);
    let again = s.thread(MAIN, "Shutdown thread");
    s.at(again, end + MS)
        .enter(shutdown)
        .after(20 * US)
        .call(hook, 5 * MS)
        .after(10 * US)
        .exit();
    let first = s.thread(4_231, "http-1");
    let mut r = s.at(first, 10 * MS);
    for _ in 0..5 {
        r.call(fetch, 30 * MS).after(MS);
    }
    let ended = r.now();
    s.end_thread(first, ended);
    let second = s.thread(4_231, "http-2");
    let mut r = s.at(second, 900 * MS);
    for _ in 0..3 {
        r.call(upload, 50 * MS).after(MS);
    }
    s.stop_at(end + 8 * MS);
    s
}

/// A notes app in which nothing stalls: the longest message of the main thread takes 1.4 ms, and a daemon waits all the
/// time. The trace was asked for.
pub fn no_stall() -> Script {
    let mut s = Script::new("com.example.notes");
    let notes = Notes::new(&mut s);
    let daemon_run = s.method("java.lang.Daemons$HeapTaskDaemon.runInternal", "()V");
    let wait = s.method("java.lang.Object.wait", "(JI)V");
    let main = s.thread(MAIN, "main");
    s.process.reason = "asked for on the control socket".to_owned();
    let mut r = s.at(main, 0);
    notes.start_main(&mut r);
    notes.frames(&mut r);
    notes.tap(&mut r, |r| {
        r.after(600 * US);
    });
    notes.idle(&mut r, 15_400 * US);
    notes.frames(&mut r);
    notes.idle_until_the_end(&mut r);
    let end = r.now();
    let daemon = s.thread(4_205, "HeapTaskDaemon");
    s.at(daemon, MS).enter(daemon_run).after(US).enter(wait);
    s.stop_at(end + 2 * MS);
    s
}

/// The main thread takes 640 ms for one message, in 12,800 calls of 47 µs and their callers: it computes, and waits for
/// nobody. Another thread is idle.
pub fn cpu_bound() -> Script {
    let mut s = Script::new("com.example.reader");
    let notes = Notes::new(&mut s);
    let load = s.method(
        "com.example.reader.ArticleScreen.load",
        "(Ljava/lang/String;)V",
    );
    let parse = s.method(
        "org.jsoup.parser.Parser.parse",
        "(Ljava/lang/String;)Lorg/jsoup/nodes/Document;",
    );
    let tag = s.method("org.jsoup.parser.HtmlTreeBuilder.process", "()Z");
    let key = s.method(
        "org.jsoup.nodes.Attribute.getValidKey",
        "(Ljava/lang/String;)Ljava/lang/String;",
    );
    let matches = s.method("java.util.regex.Matcher.find", "()Z");
    let length = s.method("java.lang.StringBuilder.length", "()I");
    let main = s.thread(MAIN, "main");
    s.process.reason =
        "a message on main took 640 ms, over 400 ms: com.example.reader, 1".to_owned();
    s.process.raised_by = WATCHDOG;
    let mut r = s.at(main, 0);
    notes.start_main(&mut r);
    notes.frames(&mut r);
    r.enter(notes.dispatch)
        .after(4 * US)
        .enter(load)
        .after(10 * US)
        .enter(parse)
        .after(3 * US);
    for _ in 0..3_200 {
        r.enter(tag).after(5 * US);
        for _ in 0..2 {
            r.enter(key)
                .after(US)
                .call(matches, 47 * US)
                .after(US)
                .exit();
            r.call(length, 47 * US).after(US);
        }
        r.after(US).exit();
    }
    r.exit().after(US).exit().after(US).exit().after(4 * US);
    let end = r.now();
    notes.frame(&mut r);
    notes.idle_until_the_end(&mut r);
    let worker = s.thread(WORKER, "notes-sync");
    let mut r = s.at(worker, 5 * MS);
    notes.start_handler(&mut r);
    notes.idle_until_the_end(&mut r);
    s.stop_at(end + 2 * MS);
    s
}

/// The main thread waits 500 ms for a lock. Its owner is busy with short messages, 4 ms each, which all need the lock;
/// its ring has wrapped, so its looper is not in it: no single call of it covers the wait.
pub fn many_short_messages() -> Script {
    const WAIT_NS: u64 = 500 * MS;
    let mut s = Script::new("com.example.notes");
    let notes = Notes::new(&mut s);
    let main = s.thread(MAIN, "main");
    s.process.reason =
        "a message on main took 500 ms, over 400 ms: android.os.Handler, 2".to_owned();
    s.process.raised_by = WATCHDOG;
    let mut r = s.at(main, 0);
    notes.start_main(&mut r);
    notes.frames(&mut r);
    let tap = r.now();
    notes.tap(&mut r, |r| {
        r.extension(Extension::LockWait, &[u64::from(WORKER), LOCK])
            .after(WAIT_NS)
            .extension(Extension::WokenBy, &[u64::from(WORKER)]);
    });
    let end = r.now();
    notes.frame(&mut r);
    notes.idle_until_the_end(&mut r);

    s.ring_log2_bytes(13);
    let worker = s.thread(WORKER, "notes-sync");
    let mut r = s.at(worker, 5 * MS);
    notes.start_handler(&mut r);
    let message = |r: &mut Recorder<'_>| {
        r.enter(notes.dispatch)
            .after(3 * US)
            .enter(notes.sync)
            .after(5 * US)
            .call(notes.write_note, 3_900 * US)
            .after(2 * US)
            .exit()
            .after(2 * US)
            .exit()
            .after(88 * US);
    };
    while r.now() < tap + 7 * US + WAIT_NS - 4 * MS {
        message(&mut r);
    }
    r.at(tap + 7 * US + WAIT_NS - 3_920 * US);
    message(&mut r);
    s.stop_at(end + 2 * MS);
    s
}

/// The main thread waits for a lock whose owner waits for another lock, whose owner writes to flash: three threads, two
/// hops. All are traced, and the rings name the owners.
pub fn lock_chain() -> Script {
    const WRITER: u32 = 4_219;
    let mut s = Script::new("com.example.notes");
    let notes = Notes::new(&mut s);
    let index = s.method("com.example.notes.SearchIndex.update", "()V");
    let main = s.thread(MAIN, "main");
    let indexer = s.thread(WORKER, "notes-index");
    let writer = s.thread(WRITER, "notes-sync");
    s.process.reason = REASON.to_owned();
    s.process.raised_by = WATCHDOG;

    let mut r = s.at(main, 0);
    notes.start_main(&mut r);
    notes.frames(&mut r);
    let tap = r.now();
    notes.tap(&mut r, |r| {
        r.extension(Extension::LockWait, &[u64::from(WORKER), LOCK])
            .after(STALL_NS)
            .extension(Extension::WokenBy, &[u64::from(WORKER)]);
    });
    let end = r.now();
    notes.frame(&mut r);
    notes.idle_until_the_end(&mut r);
    let released = tap + 7 * US + STALL_NS;

    let mut r = s.at(indexer, 5 * MS);
    notes.start_handler(&mut r);
    notes.idle(&mut r, tap - 30 * MS - 45 * US - 5 * MS);
    r.enter(notes.dispatch).after(2 * US).enter(index);
    r.after(US)
        .extension(Extension::LockWait, &[u64::from(WRITER), LOCK + 0x40])
        .at(released - 30 * US)
        .extension(Extension::WokenBy, &[u64::from(WRITER)])
        .after(20 * US)
        .exit()
        .after(2 * US)
        .exit()
        .after(US);
    notes.idle_until_the_end(&mut r);

    let mut r = s.at(writer, 6 * MS);
    notes.start_handler(&mut r);
    notes.save(&mut r, tap, 200, released - 40 * US);
    notes.idle_until_the_end(&mut r);
    s.stop_at(end + 2 * MS);
    s
}

/// The file of [`stall`] with one byte changed in the middle of the ring of "notes-sync": its checksum is wrong. The
/// other thread is whole.
///
/// # Panics
/// Never: the file is sound before.
pub fn damaged_ring() -> Vec<u8> {
    let mut bytes = stall().encode();
    let at = middle_of_ring(&bytes, 1);
    bytes[at] ^= 0x20;
    bytes
}

/// The file of [`stall`] as a copy that stopped in the middle of the ring of "notes-sync": the section table and the
/// methods' names are missing, too.
///
/// # Panics
/// Never: the file is sound before.
pub fn cut_file() -> Vec<u8> {
    let mut bytes = stall().encode();
    let at = middle_of_ring(&bytes, 1);
    bytes.truncate(at);
    bytes
}

/// Offset of the middle of a ring's section.
fn middle_of_ring(bytes: &[u8], index: u32) -> usize {
    let reader = Reader::new(bytes).expect("a sound file");
    let is_it = |kind: u32, i: u32| kind == SectionKind::Ring as u32 && i == index;
    let mut sections = reader.sections().iter();
    let ring = sections
        .find(|s| is_it(s.kind, s.index))
        .expect("the ring is there");
    (ring.offset + ring.length / 2) as usize
}
