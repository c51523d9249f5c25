// SPDX-License-Identifier: Apache-2.0
//! A dumped graph: the positions of the trace points' nodes, and the graph without them.

use std::collections::HashMap;
use std::fmt::Write as _;

use anyhow::{Context as _, Result};

const START: &str = "TraceStart";
const END: &str = "TraceEnd";

/// Attributes with the position of an instruction in the linear order, which every inserted node changes.
const POSITIONS: [&str; 7] = [
    "liveness:",
    "ranges:",
    "uses:",
    "env_uses:",
    "is_fixed:",
    "is_split:",
    "is_low:",
];

/// An instruction, as in `0 2 i5 Add [i3,i4] dex_pc:7 loop:none`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Instruction {
    uses: usize,
    /// Its number, with the letter of its type: `i5`.
    id: String,
    name: String,
    inputs: Vec<String>,
    attributes: Vec<String>,
}

/// A line of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Line {
    Instruction(Instruction),
    /// A line about blocks and their edges.
    Other(String),
}

/// A graph, with its instructions parsed.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    lines: Vec<Line>,
}

/// The trace points of a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TracePoints {
    pub(super) entries: usize,
    pub(super) exits: usize,
    pub(super) returns: usize,
}

impl Graph {
    pub(super) fn parse(text: &str) -> Result<Graph> {
        let mut in_instructions = false;
        let mut lines = Vec::new();
        for line in text.lines() {
            let line = line.trim();
            match line {
                "begin_HIR" => in_instructions = true,
                "end_HIR" => in_instructions = false,
                _ if in_instructions => {
                    let instruction = Instruction::parse(line)
                        .with_context(|| format!("not a line of a graph: '{line}'"))?;
                    lines.push(Line::Instruction(instruction));
                    continue;
                }
                // Positions in the linear order, after register allocation.
                _ if line.starts_with("from_bci ") || line.starts_with("to_bci ") => continue,
                _ => {}
            }
            lines.push(Line::Other(line.to_owned()));
        }
        Ok(Graph { lines })
    }

    pub(super) fn instructions(&self) -> usize {
        self.nodes().count()
    }

    /// The number of values that the register allocator has moved.
    pub(super) fn moves(&self) -> usize {
        self.nodes()
            .flat_map(|node| &node.attributes)
            .filter_map(|attribute| attribute.strip_prefix("moves:"))
            .map(|moves| moves.matches("->").count())
            .sum()
    }

    fn nodes(&self) -> impl Iterator<Item = &Instruction> {
        self.lines.iter().filter_map(|line| match line {
            Line::Instruction(instruction) => Some(instruction),
            Line::Other(_) => None,
        })
    }

    /// Checks that every trace point is in its place: one entry, in the first block, with nothing but suspend
    /// checks between it and the block's end; an exit right before each return; and no others.
    ///
    /// An error names the violation.
    pub(super) fn trace_points(&self) -> Result<TracePoints, String> {
        let mut found = TracePoints::default();
        let mut first_block = true;
        for block in self
            .lines
            .split(|line| *line == Line::Other("begin_HIR".into()))
            .skip(1)
        {
            let nodes: Vec<&Instruction> = block
                .iter()
                .take_while(|line| **line != Line::Other("end_HIR".into()))
                .filter_map(|line| match line {
                    Line::Instruction(instruction) => Some(instruction),
                    Line::Other(_) => None,
                })
                .collect();
            for (i, node) in nodes.iter().enumerate() {
                let next = nodes.get(i + 1).map(|next| next.name.as_str());
                match node.name.as_str() {
                    START => {
                        found.entries += 1;
                        let behind = &nodes[i + 1..];
                        let (last, checks) =
                            behind.split_last().ok_or("the entry ends its block")?;
                        if !first_block {
                            return Err("an entry is not in the first block".into());
                        }
                        if last.name != "Goto" || checks.iter().any(|n| n.name != "SuspendCheck") {
                            return Err(format!(
                                "behind the entry is {}",
                                behind
                                    .iter()
                                    .map(|n| n.name.as_str())
                                    .collect::<Vec<_>>()
                                    .join(", ")
                            ));
                        }
                    }
                    END => {
                        found.exits += 1;
                        if !matches!(next, Some("Return" | "ReturnVoid")) {
                            return Err(format!("behind an exit is {}", next.unwrap_or("nothing")));
                        }
                    }
                    "Return" | "ReturnVoid" => found.returns += 1,
                    _ => {}
                }
            }
            first_block = false;
        }
        match found {
            TracePoints {
                entries: 0,
                exits: 0,
                ..
            } => Ok(found),
            TracePoints {
                entries: 1,
                exits,
                returns,
            } if exits == returns => Ok(found),
            TracePoints {
                entries,
                exits,
                returns,
            } => Err(format!(
                "{entries} entries, {returns} returns, {exits} exits"
            )),
        }
    }

    /// The graph without its trace points, and without a current method that nothing else uses; the rest is
    /// numbered by its order.
    pub(super) fn without_trace_points(&self) -> String {
        let mut lines = self.lines.clone();
        let mut lost: HashMap<String, usize> = HashMap::new();
        for node in self.nodes().filter(|node| node.is_trace_point()) {
            for input in &node.inputs {
                *lost.entry(input.clone()).or_default() += 1;
            }
        }
        for line in &mut lines {
            if let Line::Instruction(node) = line {
                node.uses -= lost.get(&node.id).copied().unwrap_or(0).min(node.uses);
            }
        }
        lines.retain(|line| match line {
            Line::Instruction(node) => {
                let unused = node.name == "CurrentMethod" && node.uses == 0;
                !(node.is_trace_point() || unused)
            }
            Line::Other(_) => true,
        });
        let mut numbers: HashMap<String, usize> = HashMap::new();
        for line in &lines {
            if let Line::Instruction(node) = line {
                let number = numbers.len();
                numbers.insert(node.id.clone(), number);
            }
        }
        let mut text = String::new();
        for line in &lines {
            let _ = match line {
                Line::Other(line) => writeln!(text, "{line}"),
                Line::Instruction(node) => writeln!(text, "{}", node.shown(&numbers)),
            };
        }
        text
    }
}

impl Instruction {
    /// `None` if the line is none.
    fn parse(line: &str) -> Option<Instruction> {
        let line = line.strip_suffix("<|@")?;
        let mut words = line.split_whitespace();
        let (_bci, uses, id, name) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let mut words = words.peekable();
        let inputs = words
            .next_if(|word| word.starts_with('['))
            .map(|word| {
                let inner = word.trim_start_matches('[').trim_end_matches(']');
                inner.split(',').map(str::to_owned).collect()
            })
            .unwrap_or_default();
        Some(Instruction {
            uses: uses.parse().ok()?,
            id: id.to_owned(),
            name: name.to_owned(),
            inputs,
            attributes: words.map(str::to_owned).collect(),
        })
    }

    fn is_trace_point(&self) -> bool {
        self.name == START || self.name == END
    }

    fn shown(&self, numbers: &HashMap<String, usize>) -> String {
        let named = |id: &str| match numbers.get(id) {
            Some(number) => format!("{}{number}", id.chars().next().unwrap_or('?')),
            None => id.to_owned(),
        };
        let inputs: Vec<String> = self.inputs.iter().map(|id| named(id)).collect();
        let mut text = format!(
            "{} uses:{} {} [{}]",
            named(&self.id),
            self.uses,
            self.name,
            inputs.join(",")
        );
        for attribute in &self.attributes {
            if POSITIONS.iter().any(|name| attribute.starts_with(name)) {
                continue;
            }
            text.push(' ');
            if let Some(environments) = attribute.strip_prefix("env:") {
                // Only instructions, in brackets, one pair for each inlined method.
                text.push_str("env:");
                let mut id = String::new();
                for c in environments.chars() {
                    if c.is_ascii_alphanumeric() {
                        id.push(c);
                    } else {
                        text.push_str(&named(&id));
                        id.clear();
                        text.push(c);
                    }
                }
                text.push_str(&named(&id));
            } else {
                text.push_str(attribute);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(entry: &str, body: &str) -> Graph {
        let block = |name: &str, lines: &str| {
            format!(
                "  begin_block\n    name \"{name}\"\n    from_bci 4\n    to_bci 9\n    begin_HIR\n{lines}    \
                 end_HIR\n  end_block\n"
            )
        };
        let lines = |text: &str| -> String {
            text.split(';')
                .filter(|line| !line.is_empty())
                .map(|line| format!("      {line} <|@\n"))
                .collect()
        };
        let text = block("B0", &lines(entry)) + &block("B1", &lines(body));
        Graph::parse(&text).unwrap()
    }

    const PLAIN_ENTRY: &str =
        "0 1 l0 ParameterValue loop:none;0 0 v1 SuspendCheck env:[[_,l0],[l0]];0 0 v2 Goto";
    const PLAIN_BODY: &str = "0 1 i3 InstanceFieldGet [l0] liveness:8 locations:[rsi]->rax;\
                              0 0 v4 Return [i3] liveness:10";
    const ENTRY: &str =
        "0 1 j7 CurrentMethod;0 1 l0 ParameterValue loop:none;0 0 v8 TraceStart [j7];\
                         0 0 v1 SuspendCheck env:[[_,l0],[l0]];0 0 v2 Goto";
    const BODY: &str =
        "0 2 i3 InstanceFieldGet [l0] liveness:14 locations:[rsi]->rax;0 0 v9 TraceEnd [i3];\
                        0 0 v4 Return [i3] liveness:18";

    #[test]
    fn a_graph_without_its_trace_points_is_that_of_a_compiler_without_them() {
        let plain = graph(PLAIN_ENTRY, PLAIN_BODY).without_trace_points();
        assert_eq!(graph(ENTRY, BODY).without_trace_points(), plain);
        assert!(plain.contains("env:[[_,l0],[l0]]"), "{plain}");
        assert!(!plain.contains("from_bci"), "{plain}");
        // Intrinsics may have an unused one without trace points, too.
        let unused = format!("0 0 j7 CurrentMethod;{PLAIN_ENTRY}");
        assert_eq!(graph(&unused, PLAIN_BODY).without_trace_points(), plain);
        let moved = graph(
            "0 0 v1 ParallelMove liveness:8 moves:[rdi->rax,rsi->[sp+8]];0 0 v2 Goto",
            "",
        );
        assert_eq!((moved.moves(), graph(ENTRY, BODY).moves()), (2, 0));
        // A current method with other users stays.
        let used = graph("0 1 j7 CurrentMethod;0 0 v1 X [j7];0 0 v2 Goto", "");
        let traced = graph(
            "0 2 j7 CurrentMethod;0 0 v1 X [j7];0 0 v3 TraceStart [j7];0 0 v2 Goto",
            "",
        );
        assert_eq!(traced.without_trace_points(), used.without_trace_points());
    }

    #[test]
    fn what_else_is_different_stays_different() {
        let plain = graph(PLAIN_ENTRY, PLAIN_BODY).without_trace_points();
        for (from, to) in [
            ("->rax", "->rbx"),
            ("[rsi]", "[rbp]"),
            ("0 0 v1 SuspendCheck env:[[_,l0],[l0]];", ""),
            ("env:[[_,l0],", "env:[[_,_],"),
            ("InstanceFieldGet [l0]", "InstanceFieldGet [i3]"),
            ("0 2 i3", "0 3 i3"),
            (
                "0 0 v9 TraceEnd [i3];",
                "0 0 v9 TraceEnd [i3];0 0 v10 ParallelMove moves:[rax->rdi];",
            ),
        ] {
            let (entry, body) = (ENTRY.replace(from, to), BODY.replace(from, to));
            assert!((&*entry, &*body) != (ENTRY, BODY), "{from}");
            assert_ne!(graph(&entry, &body).without_trace_points(), plain, "{from}");
        }
    }

    #[test]
    fn trace_points_are_found_where_they_belong_and_nowhere_else() {
        let found = graph(ENTRY, BODY).trace_points().unwrap();
        assert_eq!(
            found,
            TracePoints {
                entries: 1,
                exits: 1,
                returns: 1
            }
        );
        let found = graph(PLAIN_ENTRY, PLAIN_BODY).trace_points().unwrap();
        assert_eq!(
            found,
            TracePoints {
                entries: 0,
                exits: 0,
                returns: 1
            }
        );
        let throws = graph(ENTRY, "0 0 v3 Throw [l0]").trace_points().unwrap();
        assert_eq!(
            throws,
            TracePoints {
                entries: 1,
                exits: 0,
                returns: 0
            }
        );
        for (entry, body, why) in [
            (ENTRY, PLAIN_BODY, "1 entries, 1 returns, 0 exits"),
            (PLAIN_ENTRY, BODY, "0 entries, 1 returns, 1 exits"),
            (PLAIN_ENTRY, ENTRY, "not in the first block"),
            (
                &format!("0 0 v8 TraceStart [j7];{ENTRY}"),
                BODY,
                "behind the entry is CurrentMethod",
            ),
            (
                ENTRY,
                &BODY.replace("0 0 v4", "0 0 v5 Add;0 0 v4"),
                "behind an exit is Add",
            ),
            (
                &ENTRY.replace("Goto", "If"),
                BODY,
                "behind the entry is SuspendCheck, If",
            ),
            ("0 0 v8 TraceStart [j7]", BODY, "the entry ends its block"),
        ] {
            let error = graph(entry, body).trace_points().unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn what_is_no_instruction_is_an_error() {
        let error = Graph::parse("begin_HIR\n 0 x v1 Goto <|@\nend_HIR\n").unwrap_err();
        assert!(error.to_string().contains("0 x v1"), "{error}");
    }
}
