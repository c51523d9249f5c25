// SPDX-License-Identifier: Apache-2.0
//! A notes app: its methods, the messages of its main thread, and the stall of its main thread.

use hindsight_trace_format::slot::Extension;

use crate::{Recorder, Script};

pub(super) const US: u64 = 1_000;
pub(super) const MS: u64 = 1_000_000;

/// How long the main thread of [`stall`] waits for the lock, ns.
pub const STALL_NS: u64 = 702 * MS;

/// Thread id of the main thread, and process id.
pub(super) const MAIN: u32 = 4_200;
/// Thread id of the thread that saves notes.
pub(super) const WORKER: u32 = 4_217;
/// Thread id of the watchdog, which isn't traced.
pub(super) const WATCHDOG: u32 = 4_230;
/// Why the trace of a stall was written.
pub(super) const REASON: &str = "a message on main took 702 ms, over 400 ms: android.os.Handler, 2";

/// Addresses of the app's methods.
pub(super) struct Notes {
    pub(super) main_method: u64,
    pub(super) looper: u64,
    pub(super) next: u64,
    pub(super) poll: u64,
    pub(super) dispatch: u64,
    pub(super) handle: u64,
    pub(super) open: u64,
    pub(super) find: u64,
    pub(super) get: u64,
    pub(super) measure: u64,
    pub(super) frame: u64,
    pub(super) do_frame: u64,
    pub(super) draw: u64,
    pub(super) run: u64,
    pub(super) sync: u64,
    pub(super) save: u64,
    pub(super) save_all: u64,
    pub(super) write_all: u64,
    pub(super) write_note: u64,
    pub(super) flash: u64,
    pub(super) sleep: u64,
}

impl Notes {
    /// Adds the app's methods to a script.
    pub(super) fn new(s: &mut Script) -> Self {
        Notes {
            main_method: s.method("com.example.notes.NotesApp.main", "([Ljava/lang/String;)V"),
            looper: s.method("android.os.Looper.loop", "()V"),
            next: s.method("android.os.MessageQueue.next", "()Landroid/os/Message;"),
            poll: s.method("android.os.MessageQueue.nativePollOnce", "(JI)V"),
            dispatch: s.method(
                "android.os.Handler.dispatchMessage",
                "(Landroid/os/Message;)V",
            ),
            handle: s.method(
                "com.example.notes.NoteListScreen.handleMessage",
                "(Landroid/os/Message;)Z",
            ),
            open: s.method("com.example.notes.NoteListScreen.openNote", "(I)V"),
            find: s.method(
                "com.example.notes.NoteStore.find",
                "(I)Lcom/example/notes/Note;",
            ),
            get: s.method(
                "java.util.TreeMap.get",
                "(Ljava/lang/Object;)Ljava/lang/Object;",
            ),
            measure: s.method("com.example.notes.TextNode.measure", "(I)V"),
            frame: s.method("android.view.Choreographer.doFrame", "(JI)V"),
            do_frame: s.method("com.example.notes.NoteListScreen.doFrame", "(J)V"),
            draw: s.method("com.example.notes.ViewNode.draw", "(II)J"),
            run: s.method("android.os.HandlerThread.run", "()V"),
            sync: s.method(
                "com.example.notes.SyncWorker.handleMessage",
                "(Landroid/os/Message;)Z",
            ),
            save: s.method("com.example.notes.SyncWorker.save", "()V"),
            save_all: s.method("com.example.notes.NoteStore.saveAll", "()V"),
            write_all: s.method("com.example.notes.NoteFile.writeAll", "(Ljava/util/List;)V"),
            write_note: s.method(
                "com.example.notes.NoteFile.writeNote",
                "(Ljava/io/Writer;)V",
            ),
            flash: s.method("com.example.notes.NoteFile.syncToFlash", "()V"),
            sleep: s.method("java.lang.Thread.sleep", "(J)V"),
        }
    }

    /// The main thread enters its looper.
    pub(super) fn start_main(&self, r: &mut Recorder<'_>) {
        r.enter(self.main_method)
            .after(3 * MS)
            .enter(self.looper)
            .after(20 * US);
    }

    /// A handler thread enters its looper.
    pub(super) fn start_handler(&self, r: &mut Recorder<'_>) {
        r.enter(self.run)
            .after(30 * US)
            .enter(self.looper)
            .after(10 * US);
    }

    /// The looper waits `ns` for the next message.
    pub(super) fn idle(&self, r: &mut Recorder<'_>, ns: u64) {
        r.enter(self.next)
            .after(US)
            .call(self.poll, ns)
            .after(US)
            .exit();
    }

    /// The looper waits for a message until the trace is written.
    pub(super) fn idle_until_the_end(&self, r: &mut Recorder<'_>) {
        r.enter(self.next).after(US).enter(self.poll);
    }

    /// A frame of 1.1 ms.
    pub(super) fn frame(&self, r: &mut Recorder<'_>) {
        r.enter(self.dispatch)
            .after(8 * US)
            .enter(self.frame)
            .after(5 * US)
            .enter(self.do_frame)
            .after(20 * US);
        for _ in 0..12 {
            r.call(self.draw, 90 * US).after(2 * US);
        }
        r.exit().after(3 * US).exit().after(2 * US).exit().after(US);
    }

    /// 60 frames with pauses between them.
    pub(super) fn frames(&self, r: &mut Recorder<'_>) {
        for _ in 0..60 {
            self.frame(r);
            self.idle(r, 15_400 * US);
            r.anchor();
        }
    }

    /// A tap opens a note; `wait` is what `NoteStore.find` does before it finds the note.
    pub(super) fn tap(&self, r: &mut Recorder<'_>, wait: impl FnOnce(&mut Recorder<'_>)) {
        r.enter(self.dispatch)
            .after(4 * US)
            .enter(self.handle)
            .after(US)
            .enter(self.open)
            .after(2 * US);
        r.enter(self.find);
        wait(r);
        r.call(self.get, 5 * US).after(US).exit();
        r.call(self.measure, 300 * US)
            .after(US)
            .call(self.draw, 400 * US)
            .after(2 * US);
        r.exit().after(US).exit().after(US).exit().after(4 * US);
    }

    /// A worker waits until 60 ms before `tap`, then saves `notes` notes, and holds the lock until `until`.
    pub(super) fn save(&self, r: &mut Recorder<'_>, tap: u64, notes: u32, until: u64) {
        let idle = tap - 60 * MS - r.now();
        self.idle(r, idle);
        r.enter(self.dispatch)
            .after(3 * US)
            .enter(self.sync)
            .after(5 * US)
            .enter(self.save)
            .after(US);
        r.enter(self.save_all)
            .after(2 * US)
            .enter(self.write_all)
            .after(40 * US);
        for _ in 0..notes {
            r.call(self.write_note, 30 * US).after(US);
        }
        r.enter(self.flash).after(5 * US).enter(self.sleep);
        r.at(until - 12 * US)
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
    }
}

/// A notes app: frames on the main thread, a worker that saves once, holding a lock, and a tap that
/// needs the same lock. The trace is taken 2 ms after the end of the stall.
pub fn stall() -> Script {
    stall_in(hindsight_trace_format::ring::DEFAULT_LOG2_BYTES, 200, None)
}

/// [`stall`] as ART records it: the ring of the main thread also names the owner of the lock.
pub fn recorded_owner() -> Script {
    let log2 = hindsight_trace_format::ring::DEFAULT_LOG2_BYTES;
    stall_in(log2, 200, Some(0x5564_0010))
}

/// As [`stall`], in rings of `2^ring_log2_bytes` bytes, with `notes_saved` notes; the wait for the lock is recorded if
/// its identity is given.
pub(super) fn stall_in(ring_log2_bytes: u32, notes_saved: u32, lock: Option<u64>) -> Script {
    let mut s = Script::new("com.example.notes");
    s.ring_log2_bytes(ring_log2_bytes);
    let notes = Notes::new(&mut s);
    let main = s.thread(MAIN, "main");
    let worker = s.thread(WORKER, "notes-sync");
    s.process.reason = REASON.to_owned();
    s.process.raised_by = WATCHDOG;

    let mut r = s.at(main, 0);
    notes.start_main(&mut r);
    notes.frames(&mut r);
    let tap = r.now();
    notes.tap(&mut r, |r| {
        if let Some(lock) = lock {
            r.extension(Extension::LockWait, &[u64::from(WORKER), lock]);
        }
        r.after(STALL_NS);
    });
    let end = r.now();
    notes.frame(&mut r);
    notes.idle_until_the_end(&mut r);

    let mut r = s.at(worker, 5 * MS);
    notes.start_handler(&mut r);
    notes.save(&mut r, tap, notes_saved, tap + 7 * US + STALL_NS);
    notes.idle_until_the_end(&mut r);

    s.stop_at(end + 2 * MS);
    s
}
