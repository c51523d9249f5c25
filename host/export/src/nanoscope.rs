// SPDX-License-Identifier: Apache-2.0
//! Nanoscope's text format: `<ns>:+<method>` where a call begins, `<ns>:POP` where the innermost one ends.
//! Times count from the first event. One thread per file.

use std::fmt::Write as _;
use std::io::{self, Write};

use hindsight_decoder::{Thread, Trace};

use crate::walk::{walk, CallEvent};
use crate::written::Written;

pub(crate) fn write(trace: &Trace, thread: &Thread, out: &mut dyn Write) -> io::Result<Written> {
    let names: Vec<String> = trace.methods.iter().map(|(_, m)| m.full_name()).collect();
    let mut line = String::new();
    walk(&thread.calls, |call_event| {
        line.clear();
        // Writing to a string never fails.
        let _ = match call_event {
            CallEvent::Begin(call) => {
                let name = match names.get(call.method.0 as usize) {
                    Some(name) => name.as_str(),
                    None => &trace.methods.name(call.method),
                };
                writeln!(line, "{}:+{name}", call.start_ns - thread.start_ns)
            }
            CallEvent::End(call) => writeln!(line, "{}:POP", call.end_ns - thread.start_ns),
        };
        out.write_all(line.as_bytes())
    })?;
    Ok(Written::of_one(trace, thread).without_events(thread))
}

#[cfg(test)]
mod tests {
    use crate::{write, Format};
    use hindsight_decoder::Trace;
    use hindsight_testkit::Script;

    #[test]
    fn calls_are_pushes_and_pops_with_times_from_the_first_event() {
        let mut s = Script::new("p");
        let (f, g) = (s.method("a.C.f", "()V"), s.method("a.C.g", "()V"));
        let t = s.thread(1, "main");
        s.at(t, 100)
            .enter(f)
            .after(5)
            .call(g, 7)
            .after(1)
            .exit()
            .after(1)
            .enter(g);
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        let mut out = Vec::new();
        write(&trace, Format::Nanoscope, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "0:+a.C.f\n5:+a.C.g\n12:POP\n13:POP\n14:+a.C.g\n"
        );
    }
}
