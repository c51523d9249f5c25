// SPDX-License-Identifier: Apache-2.0
//! The tables of transactions, read again: critical paths add up to the lengths of transactions.

use std::collections::HashMap;
use std::path::Path;

use hindsight_causality::transactions::{
    crashes, group_crashes, groups, Crash, CriticalPath, GroupBy, Paths, Transactions,
};
use hindsight_causality::{Graph, Session};
use hindsight_decoder::Trace;
use hindsight_export::{write_causes, write_paths, Causes};
use hindsight_testkit::taps;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Row, RowAccessor};

fn rows(folder: &Path, table: &str) -> Vec<Row> {
    let file = std::fs::File::open(folder.join(table)).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    rows.map(|r| r.unwrap()).collect()
}

/// The place of a column.
fn place(row: &Row, column: &str) -> usize {
    row.get_column_iter()
        .position(|(name, _)| name == column)
        .unwrap()
}

fn long(row: &Row, column: &str) -> i64 {
    row.get_long(place(row, column)).unwrap()
}

fn number(row: &Row, column: &str) -> u32 {
    row.get_uint(place(row, column)).unwrap()
}

fn text<'r>(row: &'r Row, column: &str) -> &'r str {
    row.get_string(place(row, column)).unwrap()
}

#[test]
fn tables_have_what_was_found() {
    let trace = Trace::decode("t".as_ref(), &taps().encode()).unwrap();
    let session = Session::of(vec![("t".into(), trace)]);
    let graph = Graph::build(&session).unwrap();
    let found = Transactions::find(&session, &graph);
    let paths = Paths::new(&session, &graph, &found);
    let all: Vec<CriticalPath> = found
        .iter()
        .map(|(id, _)| paths.path(id).unwrap())
        .collect();
    let names: Vec<(String, u64)> = (0..found.len() as u64)
        .map(|i| (format!("name {i}"), i))
        .collect();
    let list = crashes(&session, &graph, &found, &paths);
    let keys = group_crashes(&session, &graph, &list);
    let keyed: Vec<(&Crash, u64)> = list.iter().map(|c| (c, keys[0].key)).collect();
    let causes = Causes {
        session: &session,
        graph: &graph,
        transactions: &found,
        names: &names,
        paths: &all.iter().collect::<Vec<_>>(),
        crashes: &keyed,
    };
    let folder = tempfile::tempdir().unwrap();
    let tables = folder.path().join("taps.parquet");
    // A second export replaces the first one.
    write_causes(&causes, &tables).unwrap();
    write_causes(&causes, &tables).unwrap();

    let transactions = rows(&tables, "transactions.parquet");
    assert_eq!(transactions.len(), found.len());
    let steps = rows(&tables, "critical_paths.parquet");
    let mut sums: HashMap<u32, i64> = HashMap::new();
    for step in &steps {
        *sums.entry(number(step, "transaction")).or_default() += long(step, "component_ns");
    }
    for (row, path) in transactions.iter().zip(&all) {
        let id = number(row, "transaction");
        assert_eq!(long(row, "path_ns") as u64, path.duration_ns());
        assert_eq!(sums[&id], long(row, "path_ns"));
        assert_eq!(text(row, "what"), format!("name {id}"));
    }
    assert!(steps.iter().any(|s| text(s, "component") == "network"));

    let edges = rows(&tables, "edges.parquet");
    assert_eq!(edges.len(), graph.edge_count());
    assert!(edges
        .iter()
        .any(|e| text(e, "kind") == "message" && text(e, "class") == "strong"));

    let exceptions = rows(&tables, "exceptions.parquet");
    assert_eq!(exceptions.len(), 1);
    assert_eq!(
        text(&exceptions[0], "exception"),
        "java.lang.IllegalStateException"
    );
    assert_eq!(
        text(&exceptions[0], "causes"),
        "input android.view.ViewRootImpl$WindowInputEventReceiver\ntask com.example.notes.LoadNote"
    );
    assert_eq!(groups(&session, &graph, &found, GroupBy::Graph).len(), 4);

    perfetto(&causes, &all, folder.path());
}

/// The trace itself, and for each chosen path its name, on as many tracks as it has threads.
fn perfetto(causes: &Causes<'_>, all: &[CriticalPath], folder: &Path) {
    let longest = all.iter().max_by_key(|p| p.duration_ns()).unwrap();
    let (without, with) = (folder.join("without.pftrace"), folder.join("with.pftrace"));
    write_paths(causes, &[], &without).unwrap();
    write_paths(causes, &[longest.transaction], &with).unwrap();
    let (without, with) = (
        std::fs::read(without).unwrap(),
        std::fs::read(with).unwrap(),
    );
    assert!(with.starts_with(&without));
    let name = format!("critical path of transaction {}", longest.transaction.0);
    let tracks = with
        .windows(name.len())
        .filter(|w| *w == name.as_bytes())
        .count();
    assert_eq!(tracks, 2);
    let network = b"network: task com.example.notes.LoadNote";
    assert!(with.windows(network.len()).any(|w| w == network));
}
