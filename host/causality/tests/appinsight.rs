// SPDX-License-Identifier: Apache-2.0
//! The example of AppInsight (OSDI 2012): table 1, which is the trace of figure 7, and its graph, figure 10.

use hindsight_causality::transactions::{Component, Letter, Paths, RootKind, Transactions};
use hindsight_causality::{Graph, Session};
use hindsight_decoder::Extension::{
    self, InputBegin, InputEnd, MessageDispatched, MessageDone, MessageEnqueued, TraversalBegin,
    TraversalEnd, TraversalScheduled, UserBegin, UserEnd, UserPost,
};
use hindsight_testkit::{Script, EPOCH};

const MS: u64 = 1_000_000;
const UI: u32 = 100;

/// Events of two threads with the numbers of their records in table 1; 0 for events that the table does not have.
struct Table {
    /// Of the UI's thread, and of the worker.
    records: [Vec<u32>; 2],
}

/// Table 1 as a file. The web request takes 80 ms; the worker goes on for 30 ms after it has asked for the update.
fn figure_7() -> (Script, Table) {
    let mut s = Script::new("com.example.fetch");
    let button = s.method("com.example.Main.btnFetch_Click", "()V");
    let update = s.method("com.example.Main.UpdateUI", "()V");
    let handler = s.string("btnFetch_Click");
    let request = s.string("network.reqCallback");
    let ui = s.events_thread(UI, "main", 1);
    let worker = s.events_thread(101, "worker", 2);
    let mut records = [Vec::new(), Vec::new()];
    let mut at =
        |s: &mut Script, on_ui: bool, ms: u64, record, event: Extension, fields: &[(&str, u64)]| {
            let thread = if on_ui { ui } else { worker };
            s.at(thread, ms * MS).event(event, fields);
            records[usize::from(!on_ui)].push(record);
        };
    let touch = [("sequence", 1), ("type", 2), ("class", button)];
    let call = [("name", request), ("id", 1)];
    let message = [("message", 2), ("class", update)];
    let window = [("window", 5)];
    at(&mut s, true, 10, 1, InputBegin, &touch);
    at(&mut s, true, 11, 2, UserBegin, &[("name", handler)]);
    at(&mut s, true, 12, 4, UserPost, &call);
    at(&mut s, true, 13, 6, UserEnd, &[("name", handler)]);
    at(&mut s, true, 14, 7, InputEnd, &touch[..1]);
    at(&mut s, false, 92, 9, UserBegin, &call);
    at(
        &mut s,
        false,
        95,
        11,
        MessageEnqueued,
        &[message[0], ("for thread", u64::from(UI))],
    );
    at(&mut s, true, 96, 15, MessageDispatched, &message);
    at(&mut s, true, 97, 0, TraversalScheduled, &window);
    at(&mut s, true, 98, 16, MessageDone, &message[..1]);
    at(&mut s, true, 99, 0, TraversalBegin, &window);
    at(&mut s, true, 103, 17, TraversalEnd, &window);
    at(&mut s, false, 125, 13, UserEnd, &call);
    s.stop_at(200 * MS);
    (s, Table { records })
}

#[test]
fn figure_10_has_the_critical_path_of_the_paper() {
    let (script, table) = figure_7();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("table-1.hindsight");
    script.write(&file).unwrap();

    let session = Session::open(&[&file]).unwrap();
    let graph = Graph::build(&session).unwrap();
    let found = Transactions::find(&session, &graph);
    assert_eq!(found.len(), 1);
    let (id, transaction) = found.iter().next().unwrap();
    assert_eq!(transaction.kind, RootKind::Input);
    assert_eq!(session.string(transaction.what), "com.example.Main");
    assert_eq!(transaction.updates.len(), 1);
    // It ends with the worker, after the update.
    assert_eq!(transaction.end_ns, EPOCH + 125 * MS);

    let path = Paths::new(&session, &graph, &found).path(id).unwrap();
    let names: Vec<String> = path
        .points
        .iter()
        .map(|p| {
            let record = table.records[p.event.thread.0 as usize][p.event.event as usize];
            let letter = match p.letter {
                Letter::M => "M",
                Letter::S => "S",
                Letter::E => "E",
                Letter::A => "A",
                Letter::L => "L",
                Letter::F => "F",
                Letter::W => "W",
            };
            format!("{letter}{record}")
        })
        .collect();
    assert_eq!(names.join(","), "M1,S2,A4,S9,A11,S15,E16,L17");

    assert_eq!(
        (path.begin_ns, path.end_ns),
        (EPOCH + 10 * MS, EPOCH + 103 * MS)
    );
    let shares = path.shares();
    assert_eq!(shares.total(), path.duration_ns());
    assert_eq!(shares[Component::Network], 80 * MS);
    assert_eq!(shares[Component::Queue], MS);
    assert_eq!(shares[Component::Frame], 2 * MS);
}
