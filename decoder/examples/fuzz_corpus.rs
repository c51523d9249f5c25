// SPDX-License-Identifier: Apache-2.0
//! Writes the seed inputs of scripts/fuzz: `fuzz_corpus FOLDER`. Code makes them, so that they follow the formats and take no
//! place in the repository.

use std::fs;
use std::path::Path;

use hindsight_decoder::catalogue::CATALOGUE;
use hindsight_decoder::{hubble, Extension, RingMode};
use hindsight_testkit::device::Layout;
use hindsight_testkit::{server, stall, ArtFile, ArtLayout, Script, Workload};
use hindsight_trace_format::slot::payload_slots;

/// A rules file with each form of a line.
const RULES: &str =
    "# rules\nmethod a.B$C.<init>(int[], a.B) identity=argument-2 name=new\nmethod a.B.run\n\
    field a.B.done access=written\nfield a.B.size access=read name=size\n";

const MAPPING: &str = "# compiler: R8\ncom.example.Store -> a:\n# {\"id\":\"sourceFile\",\"fileName\":\"S.java\"}\n    java.util.Map notes -> a\n    \
1:3:com.example.Note find(int):30:32 -> a\n    4:4:void com.example.Lock.lock():99:99 -> a\n    4:4:com.example.Note find(int):33 -> a\n    \
void save(com.example.Note[],long) -> b\ncom.example.Note -> a.b:\n    void <init>() -> <init>\n";

const SIGNATURES: &str = "[[signature]]\nname = \"slow\"\nhelp = \"h\"\nthread = \"main\"\n\
stack = [\"a.b.C.f\", \"...\", \"*.D.g\"]\nwhen = { mean = \"> 500 ns\", calls = \">= 3\", share = \"> 5 %\" }\n";

/// Rules that change a graph.
const GRAPH_RULES: &str = "[[split]]\nthread = \"t*\"\nevent = \"item taken\"\n[[merge]]\nevent = \"work begins\"\n\
[[edge]]\nfrom = { event = \"mark\" }\nto = { event = \"wait ends\" }\nidentity = false\n\
[[weak]]\nreason = \"wake-up\"\n[[ignore]]\nto = { class = \"a.*\" }\n[[priority]]\nprocess = \"one\"\n";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os()
        .nth(1)
        .ok_or("usage: fuzz_corpus FOLDER")?;
    let folder = Path::new(&folder);
    let put = |target: &str, name: &str, bytes: &[u8]| -> std::io::Result<()> {
        let folder = folder.join(target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(name), bytes)
    };
    let workload = Workload {
        ring_log2_bytes: 12,
        methods: 40,
        native_per_mille: 100,
        wide_per_mille: 100,
        ..Workload::default()
    };
    for (seed, laps) in [(1, 0.2), (2, 1.7)] {
        let mut script = Workload {
            seed,
            laps,
            threads: seed as u32,
            ..workload
        }
        .script();
        put("hindsight", &format!("workload-{seed}"), &script.encode())?;
        script.compressed = true;
        put("hindsight", &format!("compressed-{seed}"), &script.encode())?;
    }
    put("hindsight", "stall", &stall().encode())?;
    put("hindsight", "empty", &Script::new("p").encode())?;

    let mut killed = Script::new("killed");
    let work = killed.method("a.B.work", "()V");
    killed.string("a mark");
    let stack = killed.stack(&[(work, 3)]);
    let main = killed.ring_log2_bytes(13).thread(100, "main");
    killed.at(main, 10).enter(work);
    killed.at(main, 20).extension(Extension::Stack, &stack);
    killed.at(main, 30).exit();
    put("hindsight", "memory", &killed.shared_memory())?;

    let mut events = Script::new("events");
    let task = events.method("a.Task.run", "()V");
    events.string("a mark");
    let quiet = events.events_thread(100, "main", 1);
    events.at(quiet, 10).every_event(10).anchor();
    let busy = events.next_part(quiet, RingMode::Calls, 2_000);
    events.at(busy, 2_010).enter(task).every_event(5).exit();
    put("hindsight", "events", &events.encode())?;

    let mut stacks = Script::new("stacks");
    let methods = ["a.A.f", "a.A.g", "android.os.Looper.loop"].map(|m| stacks.method(m, "()V"));
    let thread = stacks.events_thread(100, "main", 1);
    for (at, frames) in [(10, &methods[..]), (20, &methods[1..]), (30, &methods[..2])] {
        let frames: Vec<_> = frames.iter().map(|&m| (m, 7)).collect();
        let payload = stacks.stack(&frames);
        let mut recorder = stacks.at(thread, at);
        recorder.extension(Extension::Stack, &payload);
        recorder.after(2).extension(Extension::StackAgain, &[3, 1]);
        recorder.after(1).extension(Extension::MessageDone, &[1]);
    }
    put("hindsight", "stacks", &stacks.encode())?;

    // Each event on both threads, with the same numbers; `[` begins the rules.
    let kinds = (0..CATALOGUE.len() as u8).filter(|&kind| kind != b'[');
    let mut graph: Vec<u8> = kinds
        .flat_map(|kind| [[0, 1, kind, 1, 1, 1, 1, 1], [2, 1, kind, 1, 1, 1, 1, 1]])
        .flatten()
        .collect();
    put("graph", "every-event", &graph)?;
    graph.extend(GRAPH_RULES.bytes());
    put("graph", "rules", &graph)?;
    let (_, mut device) = server();
    put("system_trace", "columns", &device.encode())?;
    device.lost(1, 100_000_000);
    device.layout = Layout::Events;
    put("system_trace", "events", &device.encode())?;

    // One event of every kind in the catalogue.
    for mode in [8, 8 | 16 | 32] {
        let mut ring = vec![mode, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 3];
        for (i, spec) in CATALOGUE.iter().enumerate() {
            let number = spec.extension.number();
            let counter = 1_000 * (1 + i as u64);
            let payload = (0..payload_slots(number)).map(|slot| match spec.extension {
                Extension::FullTime => counter - 1 + slot as u64,
                _ => 1,
            });
            let slots = payload.chain([counter << 32 | u64::from(number)]);
            ring.extend(slots.flat_map(u64::to_le_bytes));
        }
        put("ring", &format!("every-event-{mode}"), &ring)?;
    }

    // Entries, exits and all kinds of extension events.
    let mut ring = vec![2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 3];
    ring.extend([0, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0]);
    ring.extend([0, 0, 0, 0, 2, 0, 0, 0, 40, 0, 0, 0, 0, 0, 0, 0]);
    let lows = [
        0x7000_1000,
        0x7000_1028,
        0,
        0x19,
        0x7000_1000,
        0x11,
        0x7000_1050,
        0x21,
        0x28,
        1,
        0x4a,
        0,
        0x8,
    ];
    for (i, low) in lows.iter().cycle().take(200).enumerate() {
        let slot = (i as u64 * 0x0100_0001) << 32 | low;
        ring.extend(slot.to_le_bytes());
    }
    put("ring", "first-lap", &ring)?;
    ring[1] = 1;
    put("ring", "wrapped", &ring)?;

    let art = ArtFile {
        threads: vec![(11, "main".into()), (12, "worker".into())],
        methods: ["f", "g", "<init>"]
            .map(|name| ["a.C", name, "()V", "C.java"].map(str::to_owned))
            .to_vec(),
        events: vec![
            (0, 0, 0, 5, 10),
            (1, 1, 0, 0, 12),
            (0, 1, 0, 7, 13),
            (0, 1, 1, 9, 25),
            (1, 1, 2, 5, 31),
            (0, 0, 1, 10, 100),
            (0, 2, 1, 10, 110),
        ],
        start_us: 1_000_000,
    };
    for (name, layout) in [
        ("v1", ArtLayout::V1),
        ("v2", ArtLayout::V2),
        ("v3", ArtLayout::V3),
        ("stream-10", ArtLayout::V2Stream(10)),
        ("stream-14", ArtLayout::V2Stream(14)),
        ("stream-dual", ArtLayout::V3Stream),
        ("packets", ArtLayout::Packets { dual: false }),
        ("packets-dual", ArtLayout::Packets { dual: true }),
    ] {
        put("art_trace", name, &art.encode(layout))?;
    }

    let scratch = folder.join("scratch");
    fs::create_dir_all(&scratch)?;
    let (trace, base) = (scratch.join("it.hindsight"), scratch.join("it"));
    Workload {
        laps: 0.3,
        ..workload
    }
    .script()
    .write(&trace)?;
    hubble::write(&trace, None, &base)?;
    let mut all = Vec::new();
    for extension in ["position", "clocks", "symbols", "ring"] {
        all.extend(fs::read(base.with_extension(extension))?);
        if extension != "ring" {
            all.extend(b"\n%%\n");
        }
    }
    put("hubble", "workload", &all)?;
    fs::remove_dir_all(&scratch)?;

    put(
        "nanoscope",
        "calls",
        b"0:+a.C.f\n3:void a.C.h(int)\n4:POP\n5:+void a.C.g(int)\n12:POP\n13:POP\n14:POP\n20:+<entered before the trace>\n",
    )?;
    put("mapping", "r8", MAPPING.as_bytes())?;
    put("signatures", "one", SIGNATURES.as_bytes())?;
    put("rules", "each-form", RULES.as_bytes())?;
    let mut script = Script::new("com.example");
    let work = script.method("com.example.Main.work", "()V");
    let main = script.ring_log2_bytes(12).thread(100, "main");
    script.at(main, 10).call(work, 20);
    let memory = [&[1], &script.shared_memory()[..]].concat();
    put("service", "memory", &memory)?;
    // Two processes join; one takes its rings, the other one ends.
    let steps = [
        0, 0, 0, 1, 1, 0, 0, 2, 2, 2, 0, 3, 2, 0, 0, 2, 0, 4, 0, 2, 10, 1, 13, 0,
    ];
    put("service", "steps", &steps)?;
    let policy = include_bytes!("../../service/src/policy/default.toml");
    put("service", "policy", &[&[2], &policy[..]].concat())?;
    put("service", "command", b"\x03report com.example it is slow")?;
    Ok(())
}
