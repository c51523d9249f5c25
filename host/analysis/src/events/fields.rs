// SPDX-License-Identifier: Apache-2.0
//! The fields of an event, with the names that their numbers stand for.

use std::collections::HashMap;

use hindsight_decoder::catalogue::{Field, FieldKind, NO_DEX_PC, VALUE_TYPES};
use hindsight_decoder::{ThreadEvent, Trace};

/// The meaning of a field's number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// A string, the name of a class or method, or one of a list of choices.
    Text(String),
    /// A plain number, or a count.
    Number(u64),
    /// A number of bytes.
    Bytes(u64),
    /// An identity: it only tells whether two are the same.
    Identity(u64),
    /// A length of time, ns.
    Duration(u64),
    /// A point in time, CLOCK_BOOTTIME, ns.
    Time(u64),
    /// A thread.
    Thread {
        /// Its id.
        tid: u32,
        /// Its index among the trace's threads, if it is in the file.
        thread: Option<usize>,
    },
    /// A truth value.
    Flag(bool),
}

/// Resolves the fields of a trace's events.
pub struct Fields<'a> {
    trace: &'a Trace,
    by_tid: HashMap<u32, Vec<usize>>,
}

impl<'a> Fields<'a> {
    /// For the events of `trace`.
    pub fn new(trace: &'a Trace) -> Self {
        let mut by_tid: HashMap<u32, Vec<usize>> = HashMap::new();
        for (i, thread) in trace.threads.iter().enumerate() {
            by_tid.entry(thread.tid).or_default().push(i);
        }
        Fields { trace, by_tid }
    }

    /// Index of the recording of thread `tid` that contains `at_ns`, else of the nearest one.
    pub fn thread_at(&self, tid: u32, at_ns: u64) -> Option<usize> {
        let recordings = self.by_tid.get(&tid)?;
        let distance = |&&i: &&usize| {
            let thread = &self.trace.threads[i];
            let before = thread.start_ns.saturating_sub(at_ns);
            before.max(at_ns.saturating_sub(thread.end_ns))
        };
        recordings.iter().min_by_key(distance).copied()
    }

    /// The fields of an event that are known, in the order of the catalogue.
    pub fn of<'e>(
        &'e self,
        event: &'e ThreadEvent,
    ) -> impl Iterator<Item = (&'static Field, FieldValue)> + 'e {
        let fields = event.spec().fields.iter();
        fields.filter_map(move |field| Some((field, self.value(event, field)?)))
    }

    /// `None` if it is not known.
    fn value(&self, event: &ThreadEvent, field: &Field) -> Option<FieldValue> {
        let number = field.get(&event.payload);
        Some(match field.kind {
            FieldKind::Number | FieldKind::Count => FieldValue::Number(number),
            FieldKind::Flag => FieldValue::Flag(number != 0),
            FieldKind::DexPc if number == NO_DEX_PC => return None,
            FieldKind::DexPc => FieldValue::Number(number),
            FieldKind::Value => FieldValue::Text(value_text(event.get("type"), number)?),
            FieldKind::Bytes => FieldValue::Bytes(number),
            FieldKind::Choice(values) => {
                let choice = usize::try_from(number).ok().and_then(|n| values.get(n));
                choice.map_or(FieldValue::Number(number), |text| {
                    FieldValue::Text((*text).to_owned())
                })
            }
            // 0 is none of these.
            _ if number == 0 => return None,
            FieldKind::Identity => FieldValue::Identity(number),
            FieldKind::Nanoseconds => FieldValue::Duration(number),
            FieldKind::Milliseconds => FieldValue::Duration(number.saturating_mul(1_000_000)),
            FieldKind::MonotonicNs => {
                let clock = self.trace.clock.reference();
                let offset = clock.boottime_ns.wrapping_sub(clock.monotonic_ns);
                FieldValue::Time(number.wrapping_add(offset))
            }
            FieldKind::Tid => {
                let tid = u32::try_from(number).unwrap_or(u32::MAX);
                FieldValue::Thread {
                    tid,
                    thread: self.thread_at(tid, event.at_ns),
                }
            }
            FieldKind::Class => match self.trace.methods.get(event.method) {
                Some(method) if method.is_named() => FieldValue::Text(method.class.clone()),
                _ => FieldValue::Identity(number),
            },
            FieldKind::Method => match self.trace.methods.get(event.method) {
                Some(method) if method.is_named() => FieldValue::Text(method.full_name()),
                _ => FieldValue::Identity(number),
            },
            FieldKind::String => match self.trace.strings.get(number) {
                Some(text) => FieldValue::Text(text.to_owned()),
                None => FieldValue::Number(number),
            },
        })
    }
}

/// A value of the program, whose type is one of [`VALUE_TYPES`] by its index. `None` if it was not recorded.
pub(crate) fn value_text(of_type: u64, bits: u64) -> Option<String> {
    let name = usize::try_from(of_type).ok()?;
    Some(match *VALUE_TYPES.get(name)? {
        "boolean" => (bits != 0).to_string(),
        "byte" | "short" | "int" | "long" => (bits as i64).to_string(),
        "char" => match char::from_u32(bits as u32) {
            Some(c) if !c.is_control() => format!("'{c}'"),
            _ => format!("'\\u{bits:04x}'"),
        },
        "float" => f32::from_bits(bits as u32).to_string(),
        "double" => f64::from_bits(bits).to_string(),
        "object" if bits == 0 => "null".to_owned(),
        "object" => format!("object {bits:#x}"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_decoder::Extension;
    use hindsight_testkit::Script;

    #[test]
    fn numbers_become_names_where_they_are_known() {
        let mut s = Script::new("p");
        let run = s.method("a.Task.run", "()V");
        let name = s.string("a mark");
        let t = s.events_thread(7, "t", 1);
        s.at(t, 10)
            .event(
                Extension::TaskSubmitted,
                &[("task", 5), ("class", run), ("kind", 3), ("delay", 20)],
            )
            .event(Extension::TaskSubmitted, &[("class", 99), ("kind", 77)])
            .event(Extension::UserMark, &[("name", name)])
            .event(Extension::UserMark, &[("name", 44)])
            .event(Extension::WokenBy, &[("by", 7)])
            .event(Extension::WokenBy, &[("by", 8)]);
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        let fields = Fields::new(&trace);
        let of = |i: usize| -> Vec<(&str, FieldValue)> {
            let event = &trace.threads[0].events[i];
            fields.of(event).map(|(f, value)| (f.name, value)).collect()
        };
        let text = |text: &str| FieldValue::Text(text.to_owned());
        assert_eq!(
            of(0),
            [
                ("task", FieldValue::Identity(5)),
                ("class", text("a.Task")),
                ("kind", text("timer")),
                ("delay", FieldValue::Duration(20_000_000)),
            ]
        );
        assert_eq!(
            of(1),
            [
                ("class", FieldValue::Identity(99)),
                ("kind", FieldValue::Number(77))
            ]
        );
        assert_eq!(of(2), [("name", text("a mark"))]);
        assert_eq!(of(3), [("name", FieldValue::Number(44))]);
        let thread = |tid, thread| FieldValue::Thread { tid, thread };
        assert_eq!(of(4), [("by", thread(7, Some(0)))]);
        assert_eq!(of(5), [("by", thread(8, None))]);
    }

    #[test]
    fn values_are_shown_by_their_types() {
        let bits = |value: i64| value as u64;
        for (of_type, bits, text) in [
            ("boolean", 1, "true"),
            ("byte", bits(-1), "-1"),
            ("char", 0x61, "'a'"),
            ("char", 0xd800, "'\\ud800'"),
            ("int", bits(-5), "-5"),
            ("long", u64::MAX >> 1, "9223372036854775807"),
            ("float", u64::from(1.5_f32.to_bits()), "1.5"),
            ("double", (-0.25_f64).to_bits(), "-0.25"),
            ("object", 0, "null"),
            ("object", 0x77, "object 0x77"),
        ] {
            let index = VALUE_TYPES.iter().position(|&t| t == of_type).unwrap();
            assert_eq!(value_text(index as u64, bits).as_deref(), Some(text));
        }
        assert_eq!(value_text(0, 5), None);
        assert_eq!(value_text(99, 5), None);
    }
}
