// SPDX-License-Identifier: Apache-2.0
//! A `.hindsight` file, written in the published layout, reads as the same calls.

use std::path::Path;

use hindsight_decoder::hubble::{self, Files};
use hindsight_decoder::{Extension, Mode, Trace};
use hindsight_testkit::{Script, Workload};

fn workload() -> Workload {
    Workload {
        ring_log2_bytes: 14,
        laps: 2.5,
        threads: 2,
        methods: 300,
        native_per_mille: 50,
        wide_per_mille: 50,
        ..Workload::default()
    }
}

#[test]
fn what_is_written_reads_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.hindsight");
    workload().script().write(&path).unwrap();
    let whole = Trace::open(&path).unwrap();
    for thread in &whole.threads {
        let base = folder.path().join(format!("thread-{}", thread.tid));
        hubble::write(&path, Some(thread.tid), &base).unwrap();
        for name in ["", ".ring", ".symbols"] {
            let name = folder.path().join(format!("thread-{}{name}", thread.tid));
            let trace = hubble::read(&name).unwrap();
            let own = &trace.threads[0];
            assert_eq!((own.tid, &own.name), (thread.tid, &thread.name));
            assert_eq!(own.calls.start_ns, thread.calls.start_ns);
            assert_eq!(own.calls.end_ns, thread.calls.end_ns);
            assert_eq!(own.calls.parent, thread.calls.parent);
            assert_eq!(own.calls.flags, thread.calls.flags);
            let names = |trace: &Trace, thread: usize| -> Vec<String> {
                let methods = &trace.threads[thread].calls.method;
                methods
                    .iter()
                    .map(|&m| trace.methods.name(m).into_owned())
                    .collect()
            };
            let index = usize::from(thread.tid != 300);
            assert_eq!(names(&trace, 0), names(&whole, index));
        }
    }
    // Nothing else is left behind.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1 + 2 * 4);
}

#[test]
fn the_mode_of_a_thread_is_kept() {
    let mut script = Script::new("p");
    let f = script.method("a.C.f", "()V");
    let calls = script.thread(7, "calls");
    script.at(calls, 10).call(f, 10);
    let events = script.events_thread(8, "events", 1);
    script.at(events, 10).extension(Extension::UserMark, &[0]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.hindsight");
    script.write(&path).unwrap();
    for (tid, mode) in [(7, Mode::Calls), (8, Mode::Events)] {
        let base = folder.path().join(mode.name());
        hubble::write(&path, Some(tid), &base).unwrap();
        let trace = hubble::read(&base).unwrap();
        assert_eq!(trace.threads[0].mode, mode);
    }
}

#[test]
fn a_thread_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.hindsight");
    workload().script().write(&path).unwrap();
    let error = hubble::write(&path, Some(7), &folder.path().join("x")).unwrap_err();
    assert!(error.to_string().contains("no thread 7"), "{error}");
}

#[test]
fn errors_name_the_file_and_the_line() {
    let position = b"tid=1\nname=main\nlog2_bytes=12\nlaps=0\noffset=16\nstarted=0\nstopped=9\n";
    let clocks = b"ticks_per_second=1000000000\ncounter=9\nmonotonic_ns=9\nboottime_ns=9\nrealtime_ns=9\npid=1\n";
    let good = Files {
        ring: &[0; 16],
        position,
        clocks,
        symbols: b"0x70001000\ta.C\tf\t()V\tC.java\n",
    };
    let parse = |files| hubble::parse(Path::new("t"), files).map(|_| ());
    assert!(parse(good).is_ok());
    let error = |files| parse(files).unwrap_err().to_string();
    let short = Files {
        ring: &[0; 8],
        ..good
    };
    assert!(error(short).starts_with("t.ring: at byte 8: the file ends here"));
    let symbols = Files {
        symbols: b"x\ta\n",
        ..good
    };
    assert!(error(symbols).starts_with("t.symbols:1: \"x\" is no hexadecimal"));
    let position = Files {
        position: b"tid=1\nlog2_bytes=99\n",
        ..good
    };
    assert!(error(position).starts_with("t.position:2: log2_bytes=99: a ring has"));
    let position = Files {
        position: b"tid=1\nlog2_bytes=12\nlaps=0\noffset=16\nstarted=0\nstopped=9\nmode=all\n",
        ..good
    };
    assert!(error(position).starts_with("t.position:7: mode=all: a ring has"));
    let clocks = Files {
        clocks: b"ticks_per_second=many\n",
        ..good
    };
    assert!(error(clocks).starts_with("t.clocks:1: ticks_per_second=many: it is missing"));
}
