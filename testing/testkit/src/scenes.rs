// SPDX-License-Identifier: Apache-2.0
//! Scenes that many tests need.

use crate::Script;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// How long the main thread of [`stall`] waits for the lock, ns.
pub const STALL_NS: u64 = 702 * MS;

/// A notes app: frames on the main thread, a worker that saves once, holding a lock, and a tap that
/// needs the same lock. The trace is persisted 2 ms after the end of the stall.
pub fn stall() -> Script {
    let mut s = Script::new("com.example.notes");
    let main_method = s.method("com.example.notes.NotesApp.main", "([Ljava/lang/String;)V");
    let looper = s.method("android.os.Looper.loop", "()V");
    let next = s.method("android.os.MessageQueue.next", "()Landroid/os/Message;");
    let poll = s.method("android.os.MessageQueue.nativePollOnce", "(JI)V");
    let dispatch = s.method(
        "android.os.Handler.dispatchMessage",
        "(Landroid/os/Message;)V",
    );
    let handle = s.method(
        "com.example.notes.NoteListScreen.handleMessage",
        "(Landroid/os/Message;)Z",
    );
    let open = s.method("com.example.notes.NoteListScreen.openNote", "(I)V");
    let find = s.method(
        "com.example.notes.NoteStore.find",
        "(I)Lcom/example/notes/Note;",
    );
    let get = s.method(
        "java.util.TreeMap.get",
        "(Ljava/lang/Object;)Ljava/lang/Object;",
    );
    let measure = s.method("com.example.notes.TextNode.measure", "(I)V");
    let frame = s.method("android.view.Choreographer.doFrame", "(JI)V");
    let do_frame = s.method("com.example.notes.NoteListScreen.doFrame", "(J)V");
    let draw = s.method("com.example.notes.ViewNode.draw", "(II)J");
    let run = s.method("android.os.HandlerThread.run", "()V");
    let sync = s.method(
        "com.example.notes.SyncWorker.handleMessage",
        "(Landroid/os/Message;)Z",
    );
    let save = s.method("com.example.notes.SyncWorker.save", "()V");
    let save_all = s.method("com.example.notes.NoteStore.saveAll", "()V");
    let write_all = s.method("com.example.notes.NoteFile.writeAll", "(Ljava/util/List;)V");
    let write_note = s.method(
        "com.example.notes.NoteFile.writeNote",
        "(Ljava/io/Writer;)V",
    );
    let flash = s.method("com.example.notes.NoteFile.syncToFlash", "()V");
    let sleep = s.method("java.lang.Thread.sleep", "(J)V");

    let main = s.thread(4_200, "main");
    let worker = s.thread(4_217, "notes-sync");
    s.process.reason =
        "a message on main took 702 ms, over 400 ms: android.os.Handler, 2".to_owned();
    s.process.raised_by = 4_230;

    let one_frame = |r: &mut crate::Recorder<'_>| {
        r.enter(dispatch)
            .after(8 * US)
            .enter(frame)
            .after(5 * US)
            .enter(do_frame)
            .after(20 * US);
        for _ in 0..12 {
            r.call(draw, 90 * US).after(2 * US);
        }
        r.exit().after(3 * US).exit().after(2 * US).exit().after(US);
    };
    let mut r = s.at(main, 0);
    r.enter(main_method)
        .after(3 * MS)
        .enter(looper)
        .after(20 * US);
    for _ in 0..60 {
        one_frame(&mut r);
        r.enter(next)
            .after(US)
            .call(poll, 15_400 * US)
            .after(US)
            .exit();
        r.anchor();
    }
    let tap = r.now();
    r.enter(dispatch)
        .after(4 * US)
        .enter(handle)
        .after(US)
        .enter(open)
        .after(2 * US);
    r.enter(find)
        .after(STALL_NS)
        .call(get, 5 * US)
        .after(US)
        .exit();
    r.call(measure, 300 * US)
        .after(US)
        .call(draw, 400 * US)
        .after(2 * US);
    r.exit().after(US).exit().after(US).exit().after(4 * US);
    let end = r.now();
    one_frame(&mut r);
    r.enter(next).after(US).enter(poll);

    let mut r = s.at(worker, 5 * MS);
    r.enter(run).after(30 * US).enter(looper).after(10 * US);
    let idle = tap - 60 * MS - r.now();
    r.enter(next).after(US).call(poll, idle).after(US).exit();
    r.enter(dispatch)
        .after(3 * US)
        .enter(sync)
        .after(5 * US)
        .enter(save)
        .after(US);
    r.enter(save_all)
        .after(2 * US)
        .enter(write_all)
        .after(40 * US);
    for _ in 0..200 {
        r.call(write_note, 30 * US).after(US);
    }
    r.enter(flash).after(5 * US).enter(sleep);
    r.at(tap + 7 * US + STALL_NS - 12 * US)
        .exit()
        .after(2 * US)
        .exit()
        .after(2 * US)
        .exit();
    r.after(US)
        .exit()
        .after(4 * US)
        .exit()
        .after(US)
        .exit()
        .after(US)
        .exit()
        .after(US);
    r.enter(next).after(US).enter(poll);

    s.stop_at(end + 2 * MS);
    s
}

/// One thread that fills a ring of `2^ring_log2_bytes` bytes `laps` times with calls like those of a
/// real program: `methods` methods, up to `max_depth` deep, 12 ns and more apart. For measurements.
pub fn busy(ring_log2_bytes: u32, laps: u64, methods: u32, max_depth: u32) -> Script {
    let mut s = Script::new("com.example.busy");
    s.ring_log2_bytes(ring_log2_bytes);
    let addresses: Vec<u64> = (0..methods)
        .map(|i| {
            s.method(
                &format!("com.example.busy.Class{}.method{i}", i / 12),
                "()V",
            )
        })
        .collect();
    let thread = s.thread(300, "main");
    let mut r = s.at(thread, 0);
    // xorshift64: the same trace each time.
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut depth = 0;
    for _ in 0..laps * ((1 << ring_log2_bytes) / 8) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        r.after(12 + (random >> 32) % 64);
        let enter = depth == 0 || (depth < max_depth && random & 1 == 0);
        if enter {
            // Few methods are called often, as in real programs.
            let skewed = (random >> 8) % u64::from(methods);
            let skewed = skewed * ((random >> 40) % u64::from(methods)) / u64::from(methods);
            r.enter(addresses[skewed as usize]);
            depth += 1;
        } else {
            r.exit();
            depth -= 1;
        }
    }
    s
}
