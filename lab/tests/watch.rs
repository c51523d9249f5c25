// SPDX-License-Identifier: Apache-2.0
//! Watch points on the fields of a real ART: who reads and writes them, and with which values. Run with `--ignored` after
//! `cargo xtask lab build`.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{open, until, Program};
use hindsight_analysis::{accesses, AccessKind, Accesses, FieldValue, Fields};
use hindsight_control::{
    Access, AddedRule, AddedRules, BranchRule, ControlSocket, Error, FieldRule, RuleState,
};
use hindsight_decoder::{Extension, Trace};
use hindsight_loops::{loops, traced_calls, Archive, Loop, Source};

const MODES: [&[&str]; 2] = [&["-Xint"], &["-Xusejit:true", "-Xjitthreshold:200"]];

fn start(mode: &[&str], configuration: &str) -> (Program, ControlSocket) {
    let mut program = Program::start("watch", "Watch", "", configuration, |command, _| {
        command.args(mode);
    });
    assert_eq!(program.line(), "ready");
    let socket = ControlSocket::of_process(program.pid()).unwrap();
    (program, socket)
}

fn field(name: &str) -> FieldRule {
    FieldRule::new(&format!("Watch$Flag.{name}"), Access::Both)
}

fn rule(name: &str) -> AddedRule {
    AddedRule::Field(field(name))
}

fn rule_with_value(name: &str) -> AddedRule {
    AddedRule::Field(FieldRule {
        value: true,
        ..field(name)
    })
}

fn snapshot(socket: &ControlSocket) -> Trace {
    open(&socket.snapshot("test").unwrap())
}

fn file_in_force(socket: &ControlSocket) -> Option<PathBuf> {
    socket.status().unwrap().rules.file
}

/// Kind, thread, count, innermost method and value of each.
fn facts(accesses: &[Accesses]) -> Vec<(AccessKind, &str, u64, &str, Option<&str>)> {
    let facts = accesses.iter().map(|a| {
        let method = a.method.as_deref().unwrap_or("?");
        (a.kind, &*a.thread, a.count, method, a.value.as_deref())
    });
    facts.collect()
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn the_last_accesses_have_their_threads_and_methods() {
    for mode in MODES {
        for configuration in ["trace=off,events=rules", "trace=all,events=rules"] {
            let (mut program, socket) = start(mode, configuration);
            program.ask("write before");
            let mut added = AddedRules::put_into_force(&socket, &[rule("done")]).unwrap();
            program.ask("write first");
            program.ask("write second");
            added.restore().unwrap();
            program.ask("write after");
            let trace = snapshot(&socket);
            let found = accesses(&trace, "Watch$Flag.done", 0);
            let set = "Watch$Flag.set";
            let expected = [
                (AccessKind::Written, "second", 1, set, None),
                (AccessKind::Written, "first", 1, set, None),
                (AccessKind::Read, "main", 2, "Watch$Flag.isDone", None),
            ];
            assert_eq!(facts(&found), expected, "{mode:?} {configuration}");
            assert_ne!(found[0].object, 0);
            assert!(found
                .iter()
                .all(|a| a.object == found[0].object && a.dex_pc.is_some()));
            if configuration.starts_with("trace=all") {
                let stack: Vec<_> = found[0].stack.iter().map(String::as_str).collect();
                assert_eq!(stack[..2], [set, "Watch.write"], "{mode:?}");
            }
            assert_eq!(file_in_force(&socket), None);
            program.finish();
        }
    }
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn rules_before_stay_in_force_and_are_restored() {
    let (mut program, socket) = start(MODES[1], "trace=off,events=rules");
    let file = program.folder().join("rules.txt");
    let text = "field Watch$Flag.done access=written name=mine\nmethod Watch.count name=count\n";
    fs::write(&file, text).unwrap();
    socket.ask(&format!("rules {}", file.display())).unwrap();
    let added = AddedRules::put_into_force(&socket, &[rule("done")]).unwrap();
    assert_eq!(added.rules()[0].name(), "mine");
    program.ask("write writer");
    program.ask("count 1");
    let trace = snapshot(&socket);
    let found = accesses(&trace, "mine", 0);
    let kinds: Vec<_> = found.iter().map(|a| a.kind).collect();
    assert_eq!(kinds, [AccessKind::Written, AccessKind::Read]);
    let begins = |trace: &Trace| {
        let events = trace.threads.iter().flat_map(|t| &t.events);
        events.filter(|e| e.kind == Extension::RuleBegin).count()
    };
    assert_eq!(begins(&trace), 1);
    // As after an error.
    drop(added);
    assert_eq!(file_in_force(&socket), Some(file));
    program.ask("write writer");
    let trace = snapshot(&socket);
    let kinds: Vec<_> = accesses(&trace, "mine", 0).iter().map(|a| a.kind).collect();
    assert_eq!(kinds, [AccessKind::Written]);
    program.finish();
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn what_cannot_be_watched_is_an_error_and_changes_nothing() {
    let (mut program, socket) = start(MODES[1], "trace=off,events=rules");
    program.ask("write writer");
    let error = |rule: AddedRule| {
        let error = AddedRules::put_into_force(&socket, &[rule]).unwrap_err();
        assert_eq!(file_in_force(&socket), None);
        error.to_string()
    };
    assert_eq!(
        error(rule("nothing")),
        "Watch$Flag declares no field nothing: name the class that declares it; a nested class is Outer$Inner"
    );
    assert!(error(rule_with_value("done"))
        .contains("the configuration does not allow value=yes: start the process with values=yes"));
    let late = AddedRule::Field(FieldRule::new("Watch$Late.flag", Access::Both));
    let added = AddedRules::put_into_force(&socket, &[late]).unwrap();
    assert_eq!(added.states().unwrap()[0].0, RuleState::Waits);
    program.ask("load");
    assert_eq!(added.states().unwrap()[0].0, RuleState::On);
    drop(added);
    program.finish();
    let (program, socket) = start(MODES[1], "trace=off,events=waits");
    let error = AddedRules::put_into_force(&socket, &[rule("done")]).unwrap_err();
    assert!(
        matches!(&error, Error::NoRules { wanted } if wanted == "waits+rules"),
        "{error}"
    );
    program.finish();
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn values_are_recorded_with_consent() {
    const FIELDS: [(&str, &[&str]); 11] = [
        ("done", &["true"]),
        ("b", &["-1"]),
        ("c", &["'x'"]),
        ("s", &["-2"]),
        ("i", &["-3"]),
        ("j", &["1099511627776"]),
        ("f", &["1.5"]),
        ("d", &["-0.25"]),
        ("o", &["null", "object"]),
        ("number", &["7"]),
        ("turns", &[]),
    ];
    for mode in MODES {
        let (mut program, socket) = start(mode, "trace=off,events=rules,values=yes");
        let rules = FIELDS.map(|(field, _)| rule_with_value(field));
        let added = AddedRules::put_into_force(&socket, &rules).unwrap();
        program.ask("values");
        let trace = snapshot(&socket);
        let shown = Fields::new(&trace);
        for (field, values) in FIELDS {
            let of_kind = |kind: Extension| -> Vec<String> {
                let events = trace.threads.iter().flat_map(|t| &t.events);
                let name = format!("Watch$Flag.{field}");
                events
                    .filter(|e| e.kind == kind)
                    .filter(|e| trace.strings.get(e.get("name")) == Some(&name))
                    .filter_map(|e| shown.of(e).find(|(f, _)| f.name == "value"))
                    .map(|(_, value)| match value {
                        // The identity differs from run to run.
                        FieldValue::Text(text) => text.split(' ').next().unwrap().to_owned(),
                        other => panic!("{other:?}"),
                    })
                    .collect()
            };
            assert_eq!(of_kind(Extension::FieldWritten), values, "{mode:?} {field}");
            let last = values.last().map(|v| (*v).to_owned());
            let read: Vec<_> = last.into_iter().collect();
            assert_eq!(of_kind(Extension::FieldRead), read, "{mode:?} {field}");
        }
        drop(added);
        program.finish();
    }
}

/// Without `value=yes` no event has a value, whatever the configuration allows.
#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn values_are_only_recorded_for_rules_that_ask_for_them() {
    let (mut program, socket) = start(MODES[1], "trace=off,events=rules,values=yes");
    let added = AddedRules::put_into_force(&socket, &[rule("i")]).unwrap();
    program.ask("values");
    let trace = snapshot(&socket);
    let found = accesses(&trace, "Watch$Flag.i", 0);
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|a| a.value.is_none()));
    let events = trace.threads.iter().flat_map(|t| &t.events);
    assert!(events.map(|e| e.get("value")).all(|value| value == 0));
    drop(added);
    program.finish();
}

/// A path that is no file of rules.
#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn rules_whose_file_is_gone_are_not_replaced() {
    let (program, socket) = start(MODES[1], "trace=off,events=rules");
    let file = program.folder().join("rules.txt");
    fs::write(&file, "method Watch.count\n").unwrap();
    socket.ask(&format!("rules {}", file.display())).unwrap();
    fs::remove_file(&file).unwrap();
    let error = AddedRules::put_into_force(&socket, &[rule("done")]).unwrap_err();
    assert!(matches!(&error, Error::RulesInForce { path, .. } if path == Path::new(&file)));
    assert_eq!(file_in_force(&socket), Some(file));
    program.finish();
}

/// A loop that waits for a field: it is found, with the branch that keeps it going and the field that this reads.
#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn a_loop_is_kept_going_by_the_branch_that_reads_the_field() {
    let mut archive = Archive::default();
    archive.add(&common::jar("watch")).unwrap();
    for mode in MODES {
        let (mut program, socket) = start(mode, "trace=off,events=rules");
        let rule = AddedRule::Branches(BranchRule::new("Watch$Flag.await"));
        let added = AddedRules::put_into_force(&socket, &[rule]).unwrap();
        program.ask("wait");
        let waiting = || -> Option<(bool, Vec<Loop>)> {
            let trace = snapshot(&socket);
            let call = traced_calls(&trace, 0).into_iter().next()?;
            assert_eq!(call.thread, "waiter");
            Some((call.has_ended, loops(&archive, &call)))
        };
        // A snapshot takes the rings: one that comes between the first branches of the loop leaves the next one a part of it.
        let mut seen = None;
        until("the whole loop is recorded", || {
            let is_whole = |l: &Loop| l.exits.is_some();
            seen = waiting().filter(|(_, loops)| loops.first().is_some_and(is_whole));
            seen.is_some()
        });
        let (has_ended, loops) = seen.unwrap();
        assert!(!has_ended, "{mode:?}");
        assert_eq!(loops.len(), 1, "{mode:?}");
        let exits = loops[0].exits.as_ref().unwrap();
        assert_eq!((exits.len(), exits[0].times), (1, 0), "{mode:?}");
        assert_eq!(exits[0].sense.unwrap().symbol(), "!=");
        let [Source::Field { field, in_loop, .. }] = &exits[0].left[..] else {
            panic!("{:?}", exits[0].left);
        };
        assert_eq!((&*field.class, &*field.name), ("Watch$Flag", "done"));
        assert!(in_loop);
        assert_eq!(program.ask("finish"), "true");
        drop(added);
        program.finish();
    }
}

/// The counts of a call are exact, however many branches it takes, and events are few.
#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn branches_of_a_call_are_counted_exactly_in_few_events() {
    const ROUNDS: u64 = 1_000_001;
    for mode in MODES {
        let (mut program, socket) = start(mode, "trace=off,events=rules,event-ring=20");
        let rule = AddedRule::Branches(BranchRule::new("Watch.count"));
        let added = AddedRules::put_into_force(&socket, &[rule]).unwrap();
        assert_eq!(program.number("count 3"), 2);
        assert_eq!(program.number(&format!("count {ROUNDS}")), ROUNDS / 2 + 1);
        let trace = snapshot(&socket);
        let calls = traced_calls(&trace, 0);
        assert_eq!(calls.len(), 1);
        let call = &calls[0];
        assert!(call.has_ended && call.others == 0);
        // Of each round: the loop's condition, that of the `if`, and the way back; and the end.
        let mut times: Vec<u64> = call.edges.iter().map(|e| e.times).collect();
        times.sort_unstable();
        let (odds, evens) = (ROUNDS / 2, ROUNDS / 2 + 1);
        assert_eq!(times[0], 1, "{mode:?}: the end, {times:?}");
        assert!(
            times[1..].iter().all(|n| [odds, evens, ROUNDS].contains(n)),
            "{times:?}"
        );
        assert!(times.contains(&odds) && times.contains(&evens) && times.contains(&ROUNDS));
        let events = trace.threads.iter().flat_map(|t| &t.events);
        let events = events.filter(|e| e.kind == Extension::BranchTaken).count() as u64;
        assert!(events < ROUNDS / 100, "{mode:?}: {events}");
        drop(added);
        program.finish();
    }
}
