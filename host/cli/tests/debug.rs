// SPDX-License-Identifier: Apache-2.0
//! `hindsight debug`, by scripts, and `hindsight diagnose`.

use assert_cmd::Command;
use hindsight_testkit::{events_only, stall};
use predicates::prelude::*;
use predicates::str::contains;
use tempfile::TempDir;

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, script: &hindsight_testkit::Script| {
        script.write(&folder.path().join(name)).unwrap();
    };
    write("events.hindsight", &events_only());
    write("calls.hindsight", &stall());
    folder
}

fn hindsight(folder: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("hindsight").unwrap();
    command.current_dir(folder.path()).args(arguments);
    command
}

fn script(folder: &TempDir, commands: &str) -> assert_cmd::assert::Assert {
    std::fs::write(folder.path().join("script"), commands).unwrap();
    let arguments = ["debug", "events.hindsight", "--script", "script"];
    hindsight(folder, &arguments).assert()
}

/// What a script of one command prints after the line that repeats it.
fn answer(folder: &TempDir, command: &str) -> String {
    let output = script(folder, command)
        .success()
        .get_output()
        .stdout
        .clone();
    let text = String::from_utf8(output).unwrap();
    let first = format!("> {command}\n");
    text.strip_prefix(&first).unwrap().to_owned()
}

const COMMANDS: [&str; 24] = [
    "help",
    "info",
    "threads",
    "nodes",
    "node",
    "events",
    "stack",
    "before",
    "after",
    "path 0",
    "cause",
    "slice",
    "beam",
    "stuck",
    "kind",
    "similar",
    "chain",
    "diagnose",
    "rule",
    "rebuild",
    "slice strong",
    "similar kinds=mark,woken",
    "beam width=2",
    "quit",
];

#[test]
fn every_question_has_a_default() {
    let folder = folder();
    for command in COMMANDS {
        script(&folder, command).success();
        let name = command.split(' ').next().unwrap();
        assert!(answer(&folder, &format!("help {name}")).starts_with(name));
    }
}

#[test]
fn the_current_node_is_the_stuck_one_until_another_is_named() {
    let folder = folder();
    let stuck = answer(&folder, "node");
    assert!(
        stuck.contains("message com.example.notes.NoteListScreen, 703 ms"),
        "{stuck}"
    );
    assert!(answer(&folder, "kind").starts_with("blocked"));
    let chain = answer(&folder, "chain");
    assert!(chain.contains("pool-1-thread-1"), "{chain}");
    assert!(
        chain.contains("slept") && chain.contains("[recorded]"),
        "{chain}"
    );
    let cause = answer(&folder, "cause");
    assert!(
        cause.contains("strong message (recorded), 23.0 µs later"),
        "{cause}"
    );
    assert!(cause.contains("net (4222)"), "{cause}");
    let both = script(&folder, "node 0\nevents limit=1 # of that one\n").success();
    both.stdout(contains("node 0").and(contains("wait begins")));
}

#[test]
fn nodes_are_found_by_thread_kind_text_time_and_length() {
    let folder = folder();
    let count = |command: &str| {
        let found = answer(&folder, &format!("{command} limit=1000"));
        found.lines().filter(|l| l.starts_with("node ")).count()
    };
    let all = count("nodes");
    assert!(all > 10);
    assert_eq!(count("nodes kind=message"), 5);
    assert_eq!(count("nodes kind=message thread=main text=NoteList"), 1);
    assert_eq!(count("nodes kind=message longer=100ms"), 1);
    assert_eq!(count("nodes kind=message to=70ms"), 4);
    assert_eq!(count("nodes process=other*"), 0);
    assert!(answer(&folder, "nodes limit=2").contains(&format!("{} more", all - 2)));
    assert!(answer(&folder, "threads n*").starts_with("com.example.notes/net"));
}

#[test]
fn errors_name_the_line_and_what_helps() {
    let folder = folder();
    let fails = |commands: &str, message: &str| {
        script(&folder, commands).code(1).stderr(contains(message));
    };
    fails("kind\nnosuch\nkind", "script, line 2: nosuch");
    fails("nosuch", "help lists them");
    fails("n", "may be nodes, node");
    fails("node 99999", "is no node: nodes lists them");
    fails("nodes colour=red", "it has thread=");
    fails("nodes kind=red", "there are run, message");
    fails("nodes from=5", "write 1.5s or 200ms");
    fails("nodes text=\"open", "not closed");
    fails("beam width=0", "write a number from 1 on");
    fails("node 1 2", "is too much: node [N]");
    fails("stuck thread=nobody", "there are com.example.notes/main");
    fails("path", "from which node?");
    fails(
        "similar kinds=nothing",
        "there is no event \"nothing\": events shows the names",
    );
}

#[test]
fn rules_correct_the_graph_and_wrong_ones_name_their_line() {
    let folder = folder();
    let with_rules = |rules: &str| {
        std::fs::write(folder.path().join("graph.toml"), rules).unwrap();
        let arguments = ["debug", "events.hindsight", "--rules", "graph.toml"];
        hindsight(&folder, &arguments)
            .write_stdin("before\n")
            .assert()
    };
    with_rules("").success().stdout(contains("weak lock"));
    let without = with_rules("[[ignore]]\nreason = \"lock\"\n").success();
    without.stdout(contains("weak lock").not().and(contains("strong message")));
    let wrong = with_rules("\n[[ignore]]\nreason = \"luck\"\n").code(1);
    wrong.stderr(contains("graph.toml: line 2: "));
    let missing = ["diagnose", "events.hindsight", "--rules", "nosuch.toml"];
    let missing = hindsight(&folder, &missing).assert().code(1);
    missing.stderr(contains("cannot read nosuch.toml"));
}

#[test]
fn commands_come_from_standard_input_too() {
    let folder = folder();
    let mut command = hindsight(&folder, &["debug", "events.hindsight"]);
    let answer = command
        .write_stdin("# a comment\n\nkind\nquit\nnosuch\n")
        .assert();
    answer.success().stdout("> kind\nblocked: of 703 ms, CPU time 720 µs, waits for others 702 ms, asleep 0 ns; 0 pauses in 4 steps\n> quit\n");
}

#[test]
fn diagnose_names_the_culprit_in_text_and_json() {
    let folder = folder();
    let text = hindsight(&folder, &["diagnose", "events.hindsight"])
        .assert()
        .success();
    let culprit = "Culprit: task com.example.notes.SaveTask, on thread \"pool-1-thread-1\" (tid 4217), which held the lock";
    text.stdout(contains(culprit));
    let json = hindsight(&folder, &["diagnose", "events.hindsight", "--json"])
        .output()
        .unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["kind"], "blocked");
    assert_eq!(json["culprit"]["role"], "waited");
    assert_eq!(json["culprit"]["certainty"], "recorded");
    assert_eq!(json["culprit"]["threads"][0]["thread"], "pool-1-thread-1");
    assert_eq!(json["chain"][0]["for"]["tid"], 4217);
    assert_eq!(json["trigger"]["kind"], "message");
    // Without events there is nothing to diagnose: another command is named.
    let calls = hindsight(&folder, &["diagnose", "calls.hindsight"])
        .assert()
        .success();
    calls.stdout(contains("hindsight why"));
    let wrong = hindsight(&folder, &["diagnose", "events.hindsight", "--thread", "x"]).assert();
    wrong.code(1).stderr(contains("there is no thread \"x\""));
}

#[test]
fn rules_are_added_and_taken_away_while_the_debugger_runs() {
    let folder = folder();
    let said = |commands: &str| -> Vec<String> {
        let output = script(&folder, commands)
            .success()
            .get_output()
            .stdout
            .clone();
        let text = String::from_utf8(output).unwrap();
        text.split("> ").skip(1).map(str::to_owned).collect()
    };
    let parts = said(
        "before\nrule add ignore reason=lock  # a comment\nbefore\nrebuild\nbefore\nrule save 'two words #1.toml'\n\
         rules remove 1\nrebuild\nbefore\nkind\n",
    );
    let has_lock: Vec<bool> = [0, 2, 4, 8].map(|i| parts[i].contains("weak lock")).into();
    assert_eq!(has_lock, [true, true, false, true], "{parts:#?}");
    assert!(
        parts[1].contains("rule 1: ignore reason=lock"),
        "{}",
        parts[1]
    );
    assert!(parts[3].contains("With 1 rule: "), "{}", parts[3]);
    // The current node is still the stuck one.
    assert!(
        parts[3].contains("message com.example.notes.NoteListScreen"),
        "{}",
        parts[3]
    );
    assert!(parts[9].contains("blocked"), "{}", parts[9]);
    let saved = std::fs::read_to_string(folder.path().join("two words #1.toml")).unwrap();
    assert_eq!(saved, "[[ignore]]\nreason = \"lock\"\n");
    let of_toml = said(
        "rule add strong = [{ reason = \"lock\", from = { thread = \"pool #*\" } }]\nrule list\n",
    );
    assert_eq!(
        of_toml[1],
        "rule list\nrule 1: strong from.thread='pool #*' reason=lock\n"
    );
    let fails = |commands: &str, message: &str| {
        script(&folder, commands).code(1).stderr(contains(message));
    };
    fails(
        "kind\nrule add weak reason=luck",
        "script, line 2: rule add weak reason=luck",
    );
    fails(
        "rule add weak reason=luck",
        "there is no reason \"luck\": use one of message",
    );
    fails(
        "rule add split thread=main",
        "the pattern has no event: add",
    );
    fails("rule add", "which rule?");
    fails(
        "rule add weak = [{ reason = \"lock\" }",
        "the rule is refused: ",
    );
    fails("rule remove 1", "there are none");
    fails("rule colour", "write rule add, list, remove or save");
    fails("rule save nosuch/file", "cannot write nosuch/file");
}

/// A thread that sleeps again and again until another one writes a field.
#[test]
fn a_chain_of_waits_begins_at_the_field_of_a_yield_loop() {
    use hindsight_decoder::Extension as E;
    const MS: u64 = 1_000_000;
    let mut s = hindsight_testkit::Script::new("app");
    let job = s.method("app.Load.run", "()V");
    let flag = s.string("State.done");
    let field = [("name", flag), ("object", 3)];
    let main = s.events_thread(1, "main", 1);
    let writer = s.events_thread(2, "writer", 2);
    let mut r = s.at(main, 0);
    r.event(E::MessageDispatched, &[("message", 1), ("class", job)]);
    for i in 0..50 {
        let of = [("kind", 2), ("number", i), ("result", 1)];
        r.event(E::FieldRead, &field)
            .event(E::WaitBegin, &of[..2])
            .after(20 * MS)
            .event(E::WaitEnd, &of);
    }
    r.event(E::FieldRead, &field)
        .event(E::MessageDone, &[("message", 1)]);
    s.at(writer, 0)
        .event(E::TaskBegin, &[("task", 5), ("class", job)])
        .at(990 * MS)
        .event(E::FieldWritten, &field)
        .event(E::TaskEnd, &[("task", 5)]);
    s.stop_at(1_100 * MS);
    let folder = tempfile::tempdir().unwrap();
    s.write(&folder.path().join("events.hindsight")).unwrap();
    assert!(answer(&folder, "kind").starts_with("yield loop"));
    let chain = answer(&folder, "chain");
    assert!(
        chain.contains("read State.done in a loop for 990 ms"),
        "{chain}"
    );
    assert!(
        chain.contains("\"writer\" (tid 2) of app writes"),
        "{chain}"
    );
}

#[test]
fn hostile_scripts_and_rules_end_with_an_error() {
    let folder = folder();
    let fails = |script: &[u8], message: &str| {
        std::fs::write(folder.path().join("script"), script).unwrap();
        let arguments = ["debug", "events.hindsight", "--script", "script"];
        hindsight(&folder, &arguments)
            .assert()
            .code(1)
            .stderr(contains(message));
    };
    fails(b"kind\n\xff\xfe\n", "script, line 2: it is no text");
    fails(&[b'a'; 100_000], "script, line 1: it has more than 64 KiB");
    let deep = format!("rule add weak = {}", "[".repeat(50_000));
    fails(deep.as_bytes(), "the rule is refused");
    let device = |arguments: &[&str]| {
        hindsight(&folder, arguments).assert().code(1);
    };
    // Files without an end.
    device(&["debug", "events.hindsight", "--script", "/dev/zero"]);
    device(&["diagnose", "events.hindsight", "--rules", "/dev/zero"]);
    std::fs::write(
        folder.path().join("deep.toml"),
        "[[weak]]\nfrom = ".to_owned() + &"{a=".repeat(50_000),
    )
    .unwrap();
    device(&["diagnose", "events.hindsight", "--rules", "deep.toml"]);
}
