// SPDX-License-Identifier: Apache-2.0
//! Folded stacks, for flame graphs: a line per call chain, `thread;outermost;…;innermost ns`, with the self time of the
//! innermost method. Chains without self time are left out.

use std::io::{self, Write};

use hindsight_decoder::Trace;

use crate::labels::{thread_labels, Frames};
use crate::tree::Tree;
use crate::written::Written;

pub(crate) fn write(trace: &Trace, out: &mut dyn Write) -> io::Result<Written> {
    let threads = &trace.threads;
    // ';' separates frames, and a line ends with the number.
    let plain = |name: &str| name.replace([';', '\n', '\r'], ",");
    let frames = Frames::of(trace);
    let names: Vec<String> = frames.names.iter().map(|n| plain(n)).collect();
    let mut written = Written::of(threads);
    let mut line = String::new();
    for (thread, label) in threads.iter().zip(thread_labels(threads)) {
        let mut tree = Tree::default();
        written.left_out_calls += tree.add(&thread.calls, |call| frames.frame(call));
        let root = plain(&label);
        for (i, node) in tree.nodes.iter().enumerate() {
            if node.self_ns == 0 {
                continue;
            }
            let mut stack: Vec<&str> = tree
                .stack(i as u32)
                .map(|frame| names[frame.0 as usize].as_str())
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
            written.chains += 1;
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use crate::{write, Format};
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
        write(&trace, Format::Folded, &mut out).unwrap();
        // No f has self time.
        let expected = "main (7);a.C.f;a.C.g,x 7\nmain (7);a.C.f;a.C.f;a.C.g,x 3\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
