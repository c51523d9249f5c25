// SPDX-License-Identifier: Apache-2.0
//! Nanoscope's text: a line where a call begins, `<ns>:<signature>` as Nanoscope publishes it or `<ns>:+<method>`, and
//! `<ns>:POP` where the innermost call ends. A file holds one thread and does not name it.

use std::path::Path;

use hashbrown::HashMap;
use hindsight_trace_format::container::{Losses, ProcessFacts, Strings};

use crate::calls::{Call, Calls, Flags, NO_PARENT};
use crate::clock::Clock;
use crate::error::Error;
use crate::methods::{Method, MethodId, Methods};
use crate::model::{Stats, Thread, Trace};
use crate::stacks::Stacks;
use crate::{file, signature};

/// Exporters write this as the method of a call that began before the trace.
const NOT_RECORDED: &str = Methods::NOT_RECORDED_NAME;

/// Reads a file of Nanoscope's text. Times stay as they are: from boot as Nanoscope writes them, from the first event as
/// `hindsight export` does.
///
/// # Errors
/// If the file cannot be read, or a line makes no sense.
pub fn read(path: &Path) -> Result<Trace, Error> {
    parse(path, &file::read(path)?)
}

/// Reads the bytes of such a file. `path` is its name in errors, and gives the thread its name.
///
/// # Errors
/// If a line makes no sense.
pub fn parse(path: &Path, bytes: &[u8]) -> Result<Trace, Error> {
    let events = || lines(path, bytes);
    // Ends without a beginning belong to calls that began before the trace.
    let (mut height, mut before) = (0_u64, 0_u64);
    for event in events() {
        match event?.1 {
            Some(_) => height += 1,
            None if height == 0 => before += 1,
            None => height -= 1,
        }
    }
    let mut building = Building::default();
    let start_ns = events().next().transpose()?.map_or(0, |(at_ns, _)| at_ns);
    for _ in 0..before {
        building.begin(start_ns, MethodId::NOT_RECORDED, Flags::OPEN_START);
    }
    let mut latest_ns = start_ns;
    for event in events() {
        let (at_ns, method) = event?;
        building.stats.trace_points += 1;
        building.stats.contradicting_times += u64::from(at_ns < latest_ns);
        latest_ns = latest_ns.max(at_ns);
        match method {
            Some(NOT_RECORDED) => {
                building.begin(latest_ns, MethodId::NOT_RECORDED, Flags::OPEN_START);
            }
            Some(name) => {
                let method = building.method(name);
                building.begin(latest_ns, method, Flags::default());
            }
            None => building.end(latest_ns),
        }
    }
    Ok(building.finish(path, start_ns, latest_ns, bytes.len() as u64))
}

/// Whether these are the first bytes of Nanoscope's text.
pub fn is_nanoscope(start: &[u8]) -> bool {
    let digits = start.iter().take_while(|b| b.is_ascii_digit()).count();
    let begins_name = |b: &u8| b.is_ascii_alphabetic() || b"+<_$[".contains(b);
    let after = start[digits..].strip_prefix(b":");
    digits > 0 && after.is_some_and(|after| after.first().is_some_and(begins_name))
}

/// Time and method of each line that isn't empty; no method where a call ends.
fn lines<'a>(
    path: &'a Path,
    bytes: &'a [u8],
) -> impl Iterator<Item = Result<(u64, Option<&'a str>), Error>> + 'a {
    let line = |(number, line): (usize, &'a [u8])| {
        let fault = |what: &str| {
            Err(Error::Line {
                path: path.to_owned(),
                line: number as u64 + 1,
                what: what.to_owned(),
            })
        };
        let Ok(line) = std::str::from_utf8(line) else {
            return Some(fault(
                "the line is not UTF-8; is this a text file of Nanoscope?",
            ));
        };
        let line = line.trim_end_matches('\r');
        if line.is_empty() {
            return None;
        }
        let Some((at, what)) = line.split_once(':') else {
            return Some(fault("there is no ':' after a time; Nanoscope's lines are '<ns>:<signature>' or '<ns>:POP'"));
        };
        let Ok(at_ns) = at.trim().parse() else {
            return Some(fault("it does not begin with a time in ns"));
        };
        Some(match (what.trim(), what.strip_prefix('+')) {
            (_, Some(name)) => Ok((at_ns, Some(name))),
            ("POP", _) => Ok((at_ns, None)),
            // Class and method.
            (signature, _) if signature.contains('.') => Ok((at_ns, Some(signature))),
            _ => fault("after the time there is neither a method's signature nor 'POP'"),
        })
    };
    bytes
        .split(|&byte| byte == b'\n')
        .enumerate()
        .filter_map(line)
}

#[derive(Default)]
struct Building<'a> {
    calls: Calls,
    /// The calls that run, outermost first.
    stack: Vec<u32>,
    ids: HashMap<&'a str, MethodId>,
    methods: Vec<Method>,
    stats: Stats,
}

impl<'a> Building<'a> {
    fn method(&mut self, name: &'a str) -> MethodId {
        let methods = &mut self.methods;
        *self.ids.entry(name).or_insert_with(|| {
            methods.push(named(name));
            MethodId(methods.len() as u32 - 1)
        })
    }

    fn begin(&mut self, start_ns: u64, method: MethodId, flags: Flags) {
        let index = self.calls.len() as u32;
        self.calls.push(Call {
            start_ns,
            end_ns: start_ns,
            method,
            depth: self.stack.len() as u32,
            parent: self.stack.last().copied().unwrap_or(NO_PARENT),
            flags,
        });
        self.stats.open_starts += u64::from(flags.contains(Flags::OPEN_START));
        self.stack.push(index);
    }

    fn end(&mut self, end_ns: u64) {
        if let Some(index) = self.stack.pop() {
            self.calls.end_ns[index as usize] = end_ns;
        }
    }

    fn finish(mut self, path: &Path, start_ns: u64, end_ns: u64, file_bytes: u64) -> Trace {
        for &index in &self.stack {
            let index = index as usize;
            self.calls.end_ns[index] = end_ns;
            self.calls.flags[index] = self.calls.flags[index].with(Flags::OPEN_END);
        }
        self.stats.open_ends = self.stack.len() as u64;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let thread = Thread {
            tid: 1,
            name: name.clone().into_owned(),
            calls: self.calls,
            start_ns,
            end_ns,
            stats: self.stats,
            ..Thread::default()
        };
        Trace {
            strings: Strings::default(),
            stacks: Stacks::default(),
            process: ProcessFacts {
                pid: 1,
                name: name.into_owned(),
                ..ProcessFacts::default()
            },
            clock: Clock::nanoseconds("nanoscope", end_ns),
            methods: Methods::new(self.methods),
            threads: vec![thread],
            losses: Losses::default(),
            damaged: Vec::new(),
            file_bytes,
        }
    }
}

/// `a.b.Class.method`, or with its types, as ART prints it: `int a.b.Class.method(long)`.
fn named(name: &str) -> Method {
    let (before, parameters) = match name.split_once('(') {
        Some((before, parameters)) => (before, Some(parameters.trim_end_matches(')'))),
        None => (name, None),
    };
    let (returned, full_name) = match before.rsplit_once(' ') {
        Some((returned, full_name)) if parameters.is_some() => (Some(returned), full_name),
        _ => (None, before),
    };
    let (class, method) = full_name.rsplit_once('.').unwrap_or(("", full_name));
    let signature = parameters.zip(returned).map(|(parameters, returned)| {
        let types = parameters.split(',').map(str::trim);
        let types = types.filter(|name| !name.is_empty());
        let types: String = types.map(signature::descriptor).collect();
        format!("({types}){}", signature::descriptor(returned))
    });
    Method {
        class: class.to_owned(),
        name: method.to_owned(),
        signature: signature.unwrap_or_default(),
        ..Method::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Trace {
        parse(Path::new("main.txt"), text.as_bytes()).unwrap()
    }

    #[test]
    fn pushes_and_pops_are_calls() {
        let trace = parsed(
            "5:+a.C.f\n7:+void a.C.g(int, long)\n9:POP\n12:POP\n13:+a.C.f\n20:+a.D.<init>\n",
        );
        let got: Vec<_> = trace.threads[0]
            .calls
            .iter()
            .map(|s| {
                (
                    trace.methods.name(s.method),
                    s.start_ns,
                    s.end_ns,
                    s.depth,
                    s.flags,
                )
            })
            .collect();
        let none = Flags::default();
        assert_eq!(
            got,
            [
                ("a.C.f".into(), 5, 12, 0, none),
                ("a.C.g".into(), 7, 9, 1, none),
                ("a.C.f".into(), 13, 20, 0, Flags::OPEN_END),
                ("a.D.<init>".into(), 20, 20, 1, Flags::OPEN_END),
            ]
        );
        assert_eq!(trace.threads[0].name, "main");
    }

    /// The form of the sample that Nanoscope publishes: absolute times, whole signatures, no '+'.
    #[test]
    fn nanoscopes_own_form_is_read() {
        const SAMPLE: &str = "\
7300000001900:void com.example.Shop.open(java.lang.String)
7300000001946:int com.example.Shop.count(java.lang.String, long[])
7300000001982:POP
7300000001996:com.example.Cart com.example.Shop.cart()
7300000002019:POP
7300000002019:POP
";
        assert!(is_nanoscope(SAMPLE.as_bytes()));
        let trace = Trace::decode(Path::new("data.txt"), SAMPLE.as_bytes()).unwrap();
        let calls: Vec<_> = trace.threads[0]
            .calls
            .iter()
            .map(|c| {
                let method = trace.methods.get(c.method).unwrap();
                let times = (c.start_ns - 7_300_000_000_000, c.end_ns - 7_300_000_000_000);
                (
                    c.depth,
                    times,
                    method.full_name(),
                    method.signature.as_str(),
                )
            })
            .collect();
        let name = |method: &str| format!("com.example.Shop.{method}");
        assert_eq!(
            calls,
            [
                (0, (1900, 2019), name("open"), "(Ljava/lang/String;)V"),
                (1, (1946, 1982), name("count"), "(Ljava/lang/String;[J)I"),
                (1, (1996, 2019), name("cart"), "()Lcom/example/Cart;"),
            ]
        );
        assert_eq!(trace.threads[0].start_ns, 7_300_000_001_900);
        assert_eq!(
            (
                trace.threads[0].stats.open_starts,
                trace.threads[0].stats.open_ends
            ),
            (0, 0)
        );
        let readable = trace.methods.iter().map(|(_, m)| m.readable());
        assert_eq!(
            readable.collect::<Vec<_>>(),
            [
                "void Shop.open(String)",
                "int Shop.count(String, long[])",
                "Cart Shop.cart()"
            ]
        );
    }

    #[test]
    fn logs_are_not_taken_for_nanoscopes_text() {
        for text in [
            "12:34:56.789 I/main",
            "12: x",
            "12:",
            "12",
            ":POP",
            "x:POP",
            "",
        ] {
            assert!(!is_nanoscope(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn pops_without_a_push_end_calls_from_before() {
        let trace = parsed("3:+a.C.f\n4:POP\n6:POP\n8:POP\n");
        let calls = &trace.threads[0].calls;
        assert_eq!(calls.depth, [0, 1, 2]);
        assert_eq!(calls.end_ns, [8, 6, 4]);
        assert_eq!(trace.threads[0].stats.open_starts, 2);
        assert_eq!(calls.parent, [NO_PARENT, 0, 1]);
    }

    #[test]
    fn errors_name_the_line() {
        for (text, expected) in [
            ("1:+a\nx:POP\n", "n.txt:2: it does not begin with a time"),
            ("1:+a\n2:PUSH\n", "n.txt:2: after the time"),
            ("rubbish", "n.txt:1: there is no ':'"),
        ] {
            let error = parse(Path::new("n.txt"), text.as_bytes()).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{error}");
        }
    }
}
