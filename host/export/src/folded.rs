// SPDX-License-Identifier: Apache-2.0
//! Folded stacks, for flame graphs: `thread;outermost;…;innermost` and the ns that the innermost method
//! itself took, a line for each chain of calls that took any.

use std::io::{self, Write};

use hindsight_decoder::{Thread, Trace};

use crate::tree::Tree;
use crate::{method_names, name_of, Summary};

pub(crate) fn write(
    trace: &Trace,
    threads: &[&Thread],
    out: &mut dyn Write,
) -> io::Result<Summary> {
    // ';' separates frames, and readers take a line's last word for the number.
    let plain = |name: &str| name.replace([';', '\n', '\r'], ",");
    let names: Vec<String> = method_names(trace).iter().map(|n| plain(n)).collect();
    let mut summary = Summary::of(threads);
    let mut line = String::new();
    for thread in threads {
        let mut tree = Tree::default();
        summary.left_out_calls += tree.add(&thread.calls);
        let root = plain(&format!("{} ({})", thread.name, thread.tid));
        for (i, node) in tree.nodes.iter().enumerate() {
            if node.self_ns == 0 {
                continue;
            }
            let mut stack: Vec<&str> = tree
                .stack(i as u32)
                .map(|method| name_of(&names, method))
                .collect();
            stack.push(&root);
            line.clear();
            for frame in stack.iter().rev() {
                line.push_str(frame);
                line.push(';');
            }
            line.pop();
            line.push(' ');
            line.push_str(itoa::Buffer::new().format(node.self_ns));
            line.push('\n');
            out.write_all(line.as_bytes())?;
            summary.records += 1;
        }
    }
    Ok(summary)
}

#[cfg(test)]
mod tests {
    use crate::{write, Format, Options};
    use hindsight_decoder::Trace;
    use hindsight_testkit::Script;

    #[test]
    fn a_line_for_each_chain_that_took_time() {
        let mut s = Script::new("p");
        let (f, g) = (s.method("a.C.f", "()V"), s.method("a.C.g;x", "()V"));
        let t = s.thread(7, "main");
        s.at(t, 0)
            .enter(f)
            .call(g, 7)
            .enter(f)
            .call(g, 3)
            .exit()
            .exit();
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        let mut out = Vec::new();
        write(&trace, Format::Folded, &Options::default(), &mut out).unwrap();
        // Each f took no time of its own.
        let expected = "main (7);a.C.f;a.C.g,x 7\nmain (7);a.C.f;a.C.f;a.C.g,x 3\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
