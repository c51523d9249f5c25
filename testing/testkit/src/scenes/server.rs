// SPDX-License-Identifier: Apache-2.0
//! An app that waits for a system service, and the trace of the whole device beside it.

use hindsight_trace_format::slot::Extension::{
    BinderReply, BinderSend, MessageDispatched, MessageDone,
};

use super::notes::{MAIN, MS};
use crate::device::{By, DeviceTrace, Layout, PREEMPTED, SLEEPS, WAITS_FOR_DISK};
use crate::Script;

/// The main thread waits 293 ms for the reply to a transaction. Its server, of another process, asks a third process, which
/// computes; neither has a recording. The rest of the message is 5 ms on the processor, 1 ms without it, and 1 ms for a disk.
pub fn server() -> (Script, DeviceTrace) {
    const SERVER: u32 = 501;
    const DRAWS: u32 = 600;
    let mut s = Script::new("com.example.notes");
    let main = s.events_thread(MAIN, "main", 1);
    let class = s.method("com.example.notes.NoteListScreen.handleMessage", "()V");
    let message = [("message", 7), ("class", class)];
    s.at(main, 10 * MS)
        .event(MessageDispatched, &message)
        .at(12 * MS)
        .event(BinderSend, &[("transaction", 9), ("code", 3)])
        .at(305 * MS)
        .event(BinderReply, &[("transaction", 9)])
        .at(310 * MS)
        .event(MessageDone, &message[..1]);
    s.stop_at(400 * MS);
    let mut d = DeviceTrace::new(Layout::Compact);
    d.process(MAIN, "com.example.notes")
        .process(500, "system_server")
        .thread(500, SERVER, "Binder:500_1")
        .process(DRAWS, "/system/bin/surfaceflinger")
        .thread(DRAWS, DRAWS, "surfaceflinger");
    d.switch(0, 0, 0, 0, MAIN)
        .switch(0, 10 * MS, MAIN, PREEMPTED, 77)
        .switch(0, 11 * MS, 77, SLEEPS, MAIN)
        .transaction(0, 12 * MS, MAIN, 13 * MS, SERVER)
        .switch(0, 12 * MS + 1, MAIN, SLEEPS, 0)
        .waking(1, 12 * MS, By::Thread(MAIN), SERVER)
        .switch(1, 12 * MS + 5, 0, 0, SERVER)
        .transaction(1, 20 * MS, SERVER, 21 * MS, DRAWS)
        .switch(1, 20 * MS + 5, SERVER, SLEEPS, DRAWS)
        .reply(1, 300 * MS, DRAWS, 301 * MS, SERVER)
        .waking(1, 300 * MS, By::Thread(DRAWS), SERVER)
        .switch(1, 300 * MS + 5, DRAWS, SLEEPS, SERVER)
        .reply(1, 304 * MS, SERVER, 305 * MS, MAIN)
        .waking(1, 304 * MS, By::Thread(SERVER), MAIN)
        .switch(0, 304 * MS + 5, 0, 0, MAIN)
        .switch(0, 306 * MS, MAIN, WAITS_FOR_DISK, 0)
        .waking(0, 307 * MS, By::Interrupt(0), MAIN)
        .blocked(0, 307 * MS, MAIN, true)
        .switch(0, 307 * MS + 5, 0, 0, MAIN)
        .switch(0, 390 * MS, MAIN, SLEEPS, 0);
    (s, d)
}
