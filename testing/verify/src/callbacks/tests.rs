// SPDX-License-Identifier: Apache-2.0
//! What the judge says about graphs that are as the program knows, and about others.

use hindsight_testkit::{Script, ThreadIndex};

use super::*;

/// Marks and events of three threads: 0 is `main`, which hands callbacks over, 1 and 2 run them.
struct Program {
    script: Script,
    threads: [ThreadIndex; 3],
}

impl Program {
    fn new() -> Self {
        let mut script = Script::new("p");
        let threads = [(1, "main"), (2, "a"), (3, "b")];
        let threads = threads.map(|(tid, name)| script.events_thread(tid, name, tid.into()));
        Program { script, threads }
    }

    /// At a time, ns, a thread records a mark.
    fn mark(&mut self, thread: usize, at_ns: u64, name: &str) -> &mut Self {
        let name = self.script.string(name);
        self.event(thread, at_ns, Extension::UserMark, &[("name", name)])
    }

    /// At a time, ns, a thread records an event of a rule.
    fn rule(
        &mut self,
        thread: usize,
        at_ns: u64,
        kind: Extension,
        name: &str,
        object: u64,
    ) -> &mut Self {
        let name = self.script.string(name);
        self.event(thread, at_ns, kind, &[("name", name), ("object", object)])
    }

    fn event(
        &mut self,
        thread: usize,
        at_ns: u64,
        kind: Extension,
        fields: &[(&str, u64)],
    ) -> &mut Self {
        let thread = self.threads[thread];
        self.script.at(thread, at_ns).event(kind, fields);
        self
    }

    fn judge(&self) -> Verdict {
        let trace = Trace::decode("t".as_ref(), &self.script.encode()).unwrap();
        judge_session(&Session::of(vec![("t".into(), trace)])).unwrap()
    }
}

const TASK: [(&str, u64); 1] = [("task", 5)];
const PUT: &str = "library:netty-put";
const RUN: &str = "library:netty-run";

/// Callback 1 is handed over as task 5.
fn task() -> Program {
    let mut program = Program::new();
    program
        .mark(0, 10, "submit 1")
        .event(0, 20, Extension::TaskSubmitted, &TASK)
        .mark(0, 30, "submitted 1")
        .event(1, 40, Extension::TaskBegin, &TASK);
    program
}

fn counts(verdict: &Verdict) -> (u64, u64, usize, u64, u64, u64) {
    let unknown = verdict.unknown.values().sum();
    let wrong = verdict.wrong.len();
    (
        verdict.edges,
        verdict.judged,
        wrong,
        verdict.found,
        verdict.found_with_rules,
        unknown,
    )
}

#[test]
fn a_callback_is_found_where_its_task_runs_it() {
    let mut program = task();
    program
        .mark(1, 50, "run 1")
        .event(1, 60, Extension::TaskEnd, &TASK);
    assert_eq!(counts(&program.judge()), (1, 1, 0, 1, 0, 0));
}

#[test]
fn an_edge_to_another_callback_is_wrong() {
    let mut program = task();
    program
        .mark(0, 31, "submit 2")
        .mark(1, 50, "run 2")
        .event(1, 60, Extension::TaskEnd, &TASK)
        .mark(2, 70, "run 1");
    let verdict = program.judge();
    assert_eq!(counts(&verdict), (1, 1, 1, 0, 0, 2));
    let wrong = "task from main (event 1), where 1 was handed over, to a, where 2 runs";
    assert_eq!(verdict.wrong, [wrong]);
    assert_eq!(verdict.unknown["main to b"], 1);
}

/// A task of the library, handed over with callback 1, takes callback 2 out of the library's queue.
#[test]
fn an_edge_is_not_about_what_its_effect_takes_out_of_a_queue_later() {
    let mut program = task();
    program
        .mark(0, 31, "submit 2")
        .rule(0, 32, Extension::RuleBegin, PUT, 7)
        .rule(1, 45, Extension::RuleBegin, RUN, 7)
        .mark(1, 50, "run 2")
        .rule(1, 60, Extension::RuleEnd, RUN, 7)
        .mark(2, 70, "run 1");
    assert_eq!(counts(&program.judge()), (2, 1, 0, 0, 1, 1));
}

#[test]
fn a_path_may_lead_over_work_of_the_library_but_not_over_other_callbacks() {
    let over = [("task", 6)];
    let mut program = task();
    program
        .event(1, 50, Extension::TaskSubmitted, &over)
        .event(1, 55, Extension::TaskEnd, &TASK)
        .event(2, 60, Extension::TaskBegin, &over)
        .mark(2, 70, "run 1");
    assert_eq!(counts(&program.judge()), (2, 0, 0, 1, 0, 0));

    let mut program = task();
    program
        .mark(0, 1, "submit 2")
        .mark(1, 45, "run 2")
        .event(1, 50, Extension::TaskSubmitted, &over)
        .event(1, 55, Extension::TaskEnd, &TASK)
        .event(2, 60, Extension::TaskBegin, &over)
        .mark(2, 70, "run 1");
    assert_eq!(counts(&program.judge()), (2, 1, 1, 0, 0, 2));
}

#[test]
fn a_queue_of_a_library_needs_its_rules() {
    let mut program = Program::new();
    program
        .mark(0, 10, "submit 1")
        .rule(0, 20, Extension::RuleBegin, PUT, 7)
        .mark(0, 25, "submit 2")
        .rule(0, 30, Extension::RuleBegin, PUT, 8)
        .rule(1, 40, Extension::RuleBegin, RUN, 7)
        .mark(1, 41, "run 1")
        .rule(1, 42, Extension::RuleEnd, RUN, 7)
        .rule(1, 43, Extension::RuleBegin, RUN, 8)
        .mark(1, 44, "run 2")
        .rule(1, 45, Extension::RuleEnd, RUN, 8);
    assert_eq!(counts(&program.judge()), (2, 2, 0, 0, 2, 0));
}

/// The object of callback 1 never comes out of its queue, as far as is recorded, and its identity is used again.
#[test]
fn an_identity_that_is_used_again_leads_to_no_wrong_edge() {
    let mut program = Program::new();
    program
        .mark(0, 10, "submit 1")
        .rule(0, 20, Extension::RuleBegin, PUT, 7)
        .mark(0, 25, "submit 2")
        .rule(0, 30, Extension::RuleBegin, PUT, 7)
        .rule(1, 40, Extension::RuleBegin, RUN, 7)
        .mark(1, 41, "run 2")
        .rule(1, 42, Extension::RuleEnd, RUN, 7)
        .mark(2, 50, "run 1");
    assert_eq!(counts(&program.judge()), (0, 0, 0, 0, 0, 2));
}

#[test]
fn what_is_not_recorded_whole_is_not_judged() {
    let mut program = task();
    program.mark(1, 50, "run 1").mark(1, 60, "run 2");
    let trace = Trace::decode("t".as_ref(), &program.script.encode()).unwrap();
    let error = judge_session(&Session::of(vec![("t".into(), trace)])).unwrap_err();
    assert_eq!(error.to_string(), "1 of 2 callbacks are recorded");
}
