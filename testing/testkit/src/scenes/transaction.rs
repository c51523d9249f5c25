// SPDX-License-Identifier: Apache-2.0
//! A process that records events only, with stacks, and whose main thread waits for the reply to a transaction.

use hindsight_trace_format::slot::Extension::{
    BinderReply, BinderSend, BinderServe, BinderServed, MessageDispatched, MessageDone,
    MessageEnqueued, Stack, ThreadCpuTime, WaitBegin, WaitEnd, Wakes,
};

use super::notes::{MAIN, MS, US};
use crate::Script;

/// Kind of waits for work, as in the catalogue.
const POLL: u64 = 5;
/// Reasons for stacks, as in the catalogue.
const WAKES: u64 = 4;
const TRANSACTION: u64 = 9;
const MESSAGE: u64 = 10;

/// The main thread dispatches a message that a network thread sent, and in it waits 480 ms for the reply to a transaction, which
/// another thread of the same process serves.
pub fn transaction() -> Script {
    let mut s = Script::new("com.example.notes");
    let class = s.method("com.example.notes.NoteListScreen.handleMessage", "()V");
    let [looper, dispatch, open, transact] = [
        "android.os.Looper.loop",
        "android.os.Handler.dispatchMessage",
        "com.example.notes.NoteListScreen.openNote",
        "android.os.BinderProxy.transact",
    ]
    .map(|name| s.method(name, "()V"));
    let [exec, load, read] = [
        "android.os.Binder.execTransact",
        "com.example.notes.NoteService.load",
        "com.example.notes.NoteTable.read",
    ]
    .map(|name| s.method(name, "()V"));
    let [run, deliver] = [
        "java.lang.Thread.run",
        "com.example.notes.Connection.deliver",
    ]
    .map(|name| s.method(name, "()V"));
    let mut stack = |frames: &[(u64, u32)], reason: u64| {
        let [node, _] = s.stack(frames);
        [node, reason]
    };
    let handles = stack(&[(looper, 7), (dispatch, 2)], MESSAGE);
    let sends = [
        (looper, 7),
        (dispatch, 2),
        (class, 4),
        (open, 9),
        (transact, 1),
    ];
    let sends = stack(&sends, TRANSACTION);
    let serves = stack(&[(exec, 3), (load, 5), (read, 8)], TRANSACTION);
    let posts = stack(&[(run, 1), (deliver, 6)], WAKES);

    let main = s.events_thread(MAIN, "main", 1);
    let server = s.events_thread(4_205, "Binder:4200_1", 2);
    let net = s.events_thread(4_222, "net", 3);
    let poll = [("kind", POLL), ("number", 1)];
    let message = [("message", 200), ("class", class), ("what", 2)];
    let own = [("transaction", 7), ("code", 5)];

    s.at(net, 19 * MS)
        .event(
            MessageEnqueued,
            &[("message", 200), ("for thread", u64::from(MAIN))],
        )
        .event(Wakes, &[("thread", u64::from(MAIN)), ("wait", 1)])
        .extension(Stack, &posts);
    s.at(main, MS)
        .event(WaitBegin, &poll)
        .at(20 * MS)
        .event(WaitEnd, &poll)
        .event(MessageDispatched, &message)
        .extension(Stack, &handles)
        .extension(ThreadCpuTime, &[9 * MS])
        .after(2 * MS)
        .event(BinderSend, &own)
        .extension(Stack, &sends)
        .after(480 * MS)
        .event(BinderReply, &own[..1])
        .extension(Stack, &sends)
        .after(MS)
        .extension(ThreadCpuTime, &[11 * MS])
        .event(MessageDone, &message[..1])
        .after(US)
        .event(WaitBegin, &[("kind", POLL), ("number", 2)])
        .anchor();
    s.at(server, 23 * MS)
        .event(BinderServe, &own)
        .extension(Stack, &serves)
        .after(470 * MS)
        .extension(Stack, &serves)
        .event(BinderServed, &own[..1])
        .anchor();
    s.stop_at(600 * MS);
    s
}
