// SPDX-License-Identifier: Apache-2.0
//! Method traces in each of ART's layouts, and the calls that are read from them.

use std::path::Path;

use hindsight_decoder::art_trace::{self, Action, ArtTrace};
use hindsight_decoder::{Error, Flags, NO_PARENT};
use hindsight_testkit::{ArtFile, ArtLayout};

const LAYOUTS: [ArtLayout; 8] = [
    ArtLayout::V1,
    ArtLayout::V2,
    ArtLayout::V3,
    ArtLayout::V2Stream(10),
    ArtLayout::V2Stream(14),
    ArtLayout::V3Stream,
    ArtLayout::Packets { dual: false },
    ArtLayout::Packets { dual: true },
];

fn method(class: &str, name: &str, signature: &str) -> [String; 4] {
    [class, name, signature, "Some.java"].map(str::to_owned)
}

/// Two threads; an exception leaves two methods of the second.
fn file() -> ArtFile {
    ArtFile {
        threads: vec![(11, "main".into()), (12, "worker\t2".into())],
        methods: vec![
            method("a.C", "f", "()V"),
            method("a.C", "g", "(I)Ljava/lang/String;"),
            method("a.D", "<init>", "([J)V"),
        ],
        events: vec![
            (0, 0, 0, 5, 10),
            (1, 1, 0, 0, 12),
            (0, 1, 0, 7, 13),
            (1, 2, 0, 3, 20),
            (0, 1, 1, 9, 25),
            (1, 2, 2, 4, 30),
            (1, 1, 2, 5, 31),
            (0, 0, 1, 10, 100),
        ],
        start_us: 1_000_000,
    }
}

fn parse(bytes: &[u8]) -> Result<ArtTrace, Error> {
    art_trace::parse(Path::new("it.trace"), bytes)
}

#[test]
fn each_layout_holds_the_same_events() {
    let file = file();
    for layout in LAYOUTS {
        let trace = parse(&file.encode(layout)).unwrap();
        assert!(!trace.cut_off, "{layout:?}");
        assert_eq!(trace.unnamed_events, 0, "{layout:?}");
        assert_eq!(trace.start_ns, 1_000_000_000, "{layout:?}");
        assert_eq!(trace.pid, 77, "{layout:?}");
        let (thread, wall) = match layout {
            ArtLayout::V1 => (true, false),
            ArtLayout::V3 | ArtLayout::V3Stream | ArtLayout::Packets { dual: true } => (true, true),
            _ => (false, true),
        };
        assert_eq!(
            (trace.has_thread_clock, trace.has_wall_clock),
            (thread, wall),
            "{layout:?}"
        );
        for (index, (tid, name)) in file.threads.iter().enumerate() {
            let own = trace.threads.iter().find(|t| t.tid == *tid).unwrap();
            assert_eq!(&own.name, name, "{layout:?}");
            let got: Vec<_> = own
                .events
                .iter()
                .map(|e| {
                    let method = trace.methods.get(e.method).unwrap();
                    let at = (e.thread_us(), e.wall_us());
                    (e.action, method.full_name() + &method.signature, at)
                })
                .collect();
            let expected: Vec<_> = file
                .events
                .iter()
                .filter(|e| e.0 == index)
                .map(|&(_, method, action, thread_us, wall_us)| {
                    let [class, name, signature, _] = &file.methods[method];
                    let action = [Action::Enter, Action::Exit, Action::Unwind][action as usize];
                    let at = (
                        if thread { u64::from(thread_us) } else { 0 },
                        if wall { u64::from(wall_us) } else { 0 },
                    );
                    (action, format!("{class}.{name}{signature}"), at)
                })
                .collect();
            assert_eq!(got, expected, "{layout:?}");
        }
    }
}

#[test]
fn calls_have_callers_times_and_ends() {
    let trace = parse(&file().encode(ArtLayout::V3)).unwrap().to_trace();
    let start = 1_000_000_000;
    let main = &trace.threads[0];
    let names: Vec<_> = main
        .calls
        .iter()
        .map(|s| {
            let name = trace.methods.name(s.method).into_owned();
            (
                name,
                s.depth,
                s.parent,
                s.start_ns - start,
                s.end_ns - start,
            )
        })
        .collect();
    assert_eq!(
        names,
        [
            ("a.C.f".to_owned(), 0, NO_PARENT, 10_000, 100_000),
            ("a.C.g".to_owned(), 1, 0, 13_000, 25_000)
        ]
    );
    let worker = &trace.threads[1];
    assert!(worker.calls.flags.iter().all(|&f| f == Flags::BY_EXCEPTION));
    assert_eq!(worker.stats.left_by_exception, 2);
}

#[test]
fn calls_from_before_the_trace_are_open_at_their_start() {
    // g runs when tracing begins, in f; then f calls h, which does not end.
    let mut file = file();
    file.events = vec![
        (0, 2, 0, 0, 1),
        (0, 2, 1, 0, 2),
        (0, 1, 1, 0, 3),
        (0, 2, 0, 0, 4),
        (0, 2, 1, 0, 5),
        (0, 0, 1, 0, 6),
        // Of nothing that runs, between what does.
        (0, 2, 0, 0, 7),
        (0, 1, 1, 0, 8),
    ];
    let trace = parse(&file.encode(ArtLayout::V3)).unwrap().to_trace();
    let got: Vec<_> = trace.threads[0]
        .calls
        .iter()
        .map(|s| (trace.methods.name(s.method).into_owned(), s.depth, s.flags))
        .collect();
    let expected = [
        ("a.C.f", 0, Flags::OPEN_START),
        ("a.C.g", 1, Flags::OPEN_START),
        ("a.D.<init>", 2, Flags::default()),
        ("a.D.<init>", 1, Flags::default()),
        ("a.D.<init>", 0, Flags::OPEN_END),
    ]
    .map(|(name, depth, flags)| (name.to_owned(), depth, flags));
    assert_eq!(got, expected);
    assert_eq!(
        trace.losses.counts,
        [("exits of methods that were not running".to_owned(), 1)]
    );
}

#[test]
fn an_exit_ends_the_calls_above_it_too() {
    let mut file = file();
    file.events = vec![(0, 0, 0, 0, 1), (0, 1, 0, 0, 2), (0, 0, 1, 0, 9)];
    let trace = parse(&file.encode(ArtLayout::V3)).unwrap().to_trace();
    let flags = &trace.threads[0].calls.flags;
    assert_eq!(*flags, [Flags::default(), Flags::OPEN_END]);
    assert_eq!(trace.threads[0].calls.end_ns, [1_000_009_000; 2]);
}

#[test]
fn thread_ids_beyond_16_bits_come_from_the_list() {
    let mut file = file();
    file.threads = vec![(70_001, "main".into()), (70_002, "other".into())];
    for layout in [ArtLayout::V2, ArtLayout::V3, ArtLayout::V3Stream] {
        let trace = parse(&file.encode(layout)).unwrap();
        let tids: Vec<u32> = trace.threads.iter().map(|t| t.tid).collect();
        assert_eq!(tids, [70_001, 70_002], "{layout:?}");
        assert_eq!(trace.ambiguous_threads, 0);
    }
    file.threads = vec![
        (65_536 + 5, "main".into()),
        (2 * 65_536 + 5, "other".into()),
    ];
    let trace = parse(&file.encode(ArtLayout::V3)).unwrap();
    assert_eq!((trace.threads.len(), trace.ambiguous_threads), (1, 1));
}

#[test]
fn a_stream_of_a_killed_program_is_read_as_far_as_it_goes() {
    let file = file();
    for layout in [
        ArtLayout::V2Stream(14),
        ArtLayout::V2Stream(10),
        ArtLayout::V3Stream,
        ArtLayout::Packets { dual: true },
    ] {
        let bytes = file.encode(layout);
        let summary = bytes.windows(8).rposition(|w| w == b"*version").unwrap();
        let trace = parse(&bytes[..summary - 12]).unwrap();
        assert!(trace.cut_off, "{layout:?}");
        let events: usize = trace.threads.iter().map(|t| t.events.len()).sum();
        assert!((3..8).contains(&events), "{layout:?}: {events}");
        assert_eq!(trace.unnamed_events, 0, "{layout:?}");
    }
}

#[test]
fn no_prefix_and_no_changed_byte_makes_it_panic() {
    let file = file();
    for layout in LAYOUTS {
        let bytes = file.encode(layout);
        for length in 0..bytes.len() {
            if let Ok(trace) = parse(&bytes[..length]) {
                trace.to_trace();
            }
        }
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= flip;
                if let Ok(trace) = parse(&changed) {
                    trace.to_trace();
                }
            }
        }
    }
}

#[test]
fn other_files_are_refused_with_a_reason() {
    let error = |bytes: &[u8]| parse(bytes).unwrap_err().to_string();
    assert!(error(b"\x89HSGT").contains("this is no method trace"));
    assert!(error(b"").contains("this is no method trace"));
    assert!(error(b"*version\n3\n*end\nrubbish").contains("no 'SLOW'"));
    assert!(error(b"SLOW\x09\0rubbish").contains("version 9"));
}
