// SPDX-License-Identifier: Apache-2.0
//! Levels, and the file.

use proptest::prelude::*;

use super::*;

fn full() -> Context {
    let mut device = DeviceFacts::default();
    for fact in Fact::ALL {
        device.set(fact, &format!("value of {}", fact.name()));
    }
    Context {
        device,
        metrics: Metrics {
            names: vec!["psi-cpu-percent".into(), "frames".into()],
            samples: vec![
                Sample {
                    ms: [-10_000, -5000],
                    values: vec![Some(1.5), None],
                },
                Sample {
                    ms: [-5000, 0],
                    values: vec![Some(99.25), Some(-0.5)],
                },
            ],
        },
        log: LogExcerpt {
            lines: vec!["-1.000 E/Notes: \"Alice\" \\ [log]".into(), "ä".into()],
            left_out: 3,
        },
    }
}

#[test]
fn each_part_needs_its_level() {
    // Level, the facts that it allows, and whether lines of the log are.
    let facts = [
        (Level::None, vec![], false),
        (
            Level::Summary,
            vec!["model", "release", "cores", "memory-mib"],
            false,
        ),
        (
            Level::Signatures,
            vec!["model", "release", "cores", "memory-mib", "build"],
            false,
        ),
        (
            Level::Full,
            vec!["model", "release", "cores", "memory-mib", "build", "kernel"],
            true,
        ),
    ];
    for (level, names, has_log) in facts {
        let limited = full().limited_to(level);
        let found: Vec<_> = limited.device.iter().map(|(fact, _)| fact.name()).collect();
        assert_eq!(found, names, "{level:?}");
        assert_eq!(!limited.log.lines.is_empty(), has_log, "{level:?}");
        assert_eq!(limited.log.left_out != 0, has_log, "{level:?}");
        assert_eq!(
            limited.metrics.samples.is_empty(),
            level == Level::None,
            "{level:?}"
        );
        let text = limited.to_toml();
        for fact in Fact::ALL {
            let value = format!("value of {}", fact.name());
            assert_eq!(text.contains(&value), names.contains(&fact.name()));
        }
        assert_eq!(text.contains("Alice"), has_log, "{level:?}");
    }
}

#[test]
fn a_file_is_read_as_it_was_written() {
    let context = full();
    let text = context.to_toml();
    assert_eq!(Context::from_toml(&text), Ok(context));
    let empty = Context::default();
    assert_eq!(Context::from_toml(&empty.to_toml()), Ok(empty.clone()));
    assert_eq!(Context::from_toml("version = 1\nnew = 1"), Ok(empty));
    for wrong in ["", "version = 2", "version = 1\n[log]\nlines = 1", "\u{1}"] {
        assert!(Context::from_toml(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn metrics_that_nobody_told_are_left_out() {
    let mut metrics = full().metrics;
    metrics.samples[1].values[1] = None;
    let known = metrics.without_unknown();
    assert_eq!(known.names, ["psi-cpu-percent"]);
    assert!(known.samples.iter().all(|sample| sample.values.len() == 1));
    let range = known.range(0).unwrap();
    assert_eq!((range.least, range.highest), (1.5, 99.25));
}

#[test]
fn facts_of_a_file_are_read_or_refused_with_the_line() {
    let facts = DeviceFacts::parse("model = \"Phone 3\"\nmemory-mib = \"3700\"\nbuild = \"\"");
    let facts = facts.unwrap();
    assert_eq!(facts.get(Fact::Model), Some("Phone 3"));
    assert_eq!(facts.get(Fact::MemoryMib), Some("3840"));
    assert_eq!(facts.get(Fact::Build), None);
    for (text, part) in [
        ("\nserial = \"1\"", "line 2"),
        ("serial = \"1\"", "expected one of `model`"),
        ("model = 3", "expected a string"),
        ("model", "line 1"),
    ] {
        let problem = DeviceFacts::parse(text).unwrap_err();
        assert!(problem.contains(part), "{text}: {problem}");
    }
}

proptest! {
    #[test]
    fn no_text_of_a_higher_level_is_in_a_limited_file(
        level in 0..Level::ALL.len(),
        lines in proptest::collection::vec("[ -~]{0,40}", 0..8),
        values in proptest::collection::vec("[ -~]{0,40}", Fact::ALL.len()),
    ) {
        let level = Level::ALL[level];
        let mut context = full();
        // Marks that nothing else in the file has.
        context.log.lines = lines.iter().map(|line| format!("{line}<of the log>")).collect();
        for (fact, value) in Fact::ALL.into_iter().zip(&values) {
            context.device.set(fact, &format!("<{}>{value}", fact.name()));
        }
        let limited = context.limited_to(level);
        let text = limited.to_toml();
        prop_assert_eq!(
            text.contains("<of the log>"),
            level == Level::Full && !lines.is_empty()
        );
        for fact in Fact::ALL {
            let is_there = text.contains(&format!("<{}>", fact.name()));
            prop_assert_eq!(is_there, level != Level::None && fact.level() <= level);
        }
        prop_assert_eq!(Context::from_toml(&text), Ok(limited));
    }
}
