// SPDX-License-Identifier: Apache-2.0
//! Text configurations of Perfetto, as its command line takes them: the fields that the examples in docs/perfetto.md use.

use anyhow::{bail, ensure, Context as _, Result};
use hindsight_perfetto_source::proto::Message;

/// What a field holds.
enum Kind {
    Number,
    Text,
    Choice(&'static [(&'static str, u64)]),
    Message(&'static [Field]),
}

type Field = (&'static str, u32, Kind);

const TRACE_CONFIG: &[Field] = &[
    ("buffers", 1, Kind::Message(BUFFER)),
    ("data_sources", 2, Kind::Message(DATA_SOURCE)),
    ("duration_ms", 3, Kind::Number),
    ("flush_period_ms", 13, Kind::Number),
    ("flush_timeout_ms", 14, Kind::Number),
    ("trigger_config", 17, Kind::Message(TRIGGERS)),
    ("unique_session_name", 22, Kind::Text),
    ("data_source_stop_timeout_ms", 23, Kind::Number),
];
const BUFFER: &[Field] = &[
    ("size_kb", 1, Kind::Number),
    (
        "fill_policy",
        4,
        Kind::Choice(&[("RING_BUFFER", 1), ("DISCARD", 2)]),
    ),
];
const DATA_SOURCE: &[Field] = &[("config", 1, Kind::Message(DATA_SOURCE_CONFIG))];
const DATA_SOURCE_CONFIG: &[Field] = &[
    ("name", 1, Kind::Text),
    ("target_buffer", 2, Kind::Number),
    (
        "ftrace_config",
        100,
        Kind::Message(&[("ftrace_events", 1, Kind::Text)]),
    ),
    ("legacy_config", 1000, Kind::Text),
];
const TRIGGERS: &[Field] = &[
    (
        "trigger_mode",
        1,
        Kind::Choice(&[
            ("START_TRACING", 1),
            ("STOP_TRACING", 2),
            ("CLONE_SNAPSHOT", 4),
        ]),
    ),
    (
        "triggers",
        2,
        Kind::Message(&[("name", 1, Kind::Text), ("stop_delay_ms", 3, Kind::Number)]),
    ),
    ("trigger_timeout_ms", 3, Kind::Number),
];

/// The configuration as traced takes it.
pub(super) fn parse(text: &str) -> Result<Message> {
    let tokens = tokens(text)?;
    let mut rest = tokens.as_slice();
    let message = message(&mut rest, TRACE_CONFIG)?;
    ensure!(rest.is_empty(), "a '}}' too many");
    Ok(message)
}

fn tokens(text: &str) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for line in text.lines() {
        let mut rest = line.trim_start();
        while !rest.is_empty() && !rest.starts_with('#') {
            let length = match rest.chars().next() {
                Some('{' | '}' | ':') => 1,
                Some('"') => {
                    let end = rest[1..].find('"');
                    end.with_context(|| format!("no end of the text in: {line}"))? + 2
                }
                _ => {
                    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
                    end.unwrap_or(rest.len())
                }
            };
            ensure!(length > 0, "not understood: {rest}");
            all.push(rest[..length].to_owned());
            rest = rest[length..].trim_start();
        }
    }
    Ok(all)
}

fn next(rest: &mut &[String]) -> Option<String> {
    let (first, others) = rest.split_first()?;
    *rest = others;
    Some(first.clone())
}

/// Fields up to a `}`, which is left, or the end.
fn message(rest: &mut &[String], fields: &[Field]) -> Result<Message> {
    let mut message_ = Message::new();
    while rest.first().is_some_and(|token| token != "}") {
        let name = next(rest).context("no field")?;
        let (_, number, kind) = fields
            .iter()
            .find(|(field, _, _)| *field == name)
            .with_context(|| format!("no known field: {name}"))?;
        let mut token = next(rest).with_context(|| format!("{name}: no value"))?;
        if token == ":" {
            token = next(rest).with_context(|| format!("{name}: no value"))?;
        }
        match kind {
            Kind::Number => {
                let value = token.parse();
                message_.varint(*number, value.with_context(|| format!("{name}: {token}"))?);
            }
            Kind::Text => {
                message_.string(*number, token.trim_matches('"'));
            }
            Kind::Choice(choices) => {
                let value = choices.iter().find(|(choice, _)| *choice == token);
                let (_, value) = value.with_context(|| format!("{name}: {token} is unknown"))?;
                message_.varint(*number, *value);
            }
            Kind::Message(fields) => {
                if token != "{" {
                    bail!("{name}: '{{' is missing");
                }
                message_.message(*number, &message(rest, fields)?);
                ensure!(next(rest).is_some(), "{name}: '}}' is missing");
            }
        }
    }
    Ok(message_)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_the_message_or_an_error() {
        let text = "buffers { size_kb: 5 fill_policy: RING_BUFFER } # x\nduration_ms: 7";
        let parsed = parse(text).unwrap();
        assert_eq!(parsed.as_bytes(), [0x0a, 4, 0x08, 5, 0x20, 1, 0x18, 7]);
        for wrong in [
            "buffer {}",
            "buffers {",
            "duration_ms: x",
            "}",
            "buffers: 1",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
