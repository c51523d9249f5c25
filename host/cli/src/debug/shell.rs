// SPDX-License-Identifier: Apache-2.0
//! One command after the other, about the current node.

use anyhow::{bail, Context, Result};
use hindsight_causality::diagnosis::{stretch_at, stuck, Found, Stretch, StuckQuestion};
use hindsight_causality::{Graph, NodeId};

use super::commands::{find, Words, COMMANDS};
use super::{ask, rules, search, show};
use crate::diagnose::stall_time;
use crate::page::{Look, Page};
use crate::places::{find_thread, parse_time};
use crate::session::Opened;
use crate::words::counted;

/// Whether the shell goes on after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    GoOn,
    End,
}

/// The graph, and the node that questions are about.
pub(super) struct Shell {
    opened: Opened,
    /// The stuck stretch, or the node that was named last.
    current: Option<Found>,
}

/// Writes lines to standard output.
pub(super) fn print(look: &Look, lines: &[String]) -> Result<()> {
    Page::new(look).show(|page| {
        for line in lines {
            page.plain(line)?;
        }
        Ok(())
    })
}

impl Shell {
    pub(super) fn new(opened: Opened) -> Self {
        let question = StuckQuestion::default();
        let current = stuck(&opened.session, &opened.graph, &question);
        Shell { opened, current }
    }

    pub(super) fn opened(&self) -> &Opened {
        &self.opened
    }

    /// What is said first.
    pub(super) fn greeting(&self) -> Vec<String> {
        let mut lines = search::info(&self.opened);
        if let Some(found) = &self.current {
            let which = match found.is_long {
                true => "The current node is the stuck one:",
                false => "No thread was stuck. The current node is the longest:",
            };
            lines.push(which.to_owned());
            lines.push(format!(
                "  {}",
                show::node_line(&self.opened, found.stretch.first)
            ));
        }
        lines.push("help lists the commands; diagnose answers with all defaults.".to_owned());
        lines
    }

    /// Runs a command.
    pub(super) fn run(&mut self, line: &str, look: &Look) -> Result<Turn> {
        let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        if find(first).is_ok_and(|command| command.name == "rule") {
            // What follows is no list of words: it may be TOML.
            print(look, &rules::run(&mut self.opened.rules, rest)?)?;
            return Ok(Turn::GoOn);
        }
        let mut words = Words::parse(line)?;
        let lines = match words.command.name {
            "quit" => return Ok(Turn::End),
            "help" => help(&words)?,
            "info" => search::info(&self.opened),
            "threads" => search::threads(&self.opened, words.plain.first().map(String::as_str)),
            "nodes" => search::nodes(&self.opened, &words)?,
            "stuck" => self.stuck(&words)?,
            "path" => self.path(&words)?,
            "compare" => self.compare(&words)?,
            "rebuild" => self.rebuild(&words)?,
            "diagnose" => {
                let found = self.found(&words)?;
                ask::diagnose(&self.opened, found, look)?;
                Vec::new()
            }
            _ => self.about_node(&mut words)?,
        };
        print(look, &lines)?;
        Ok(Turn::GoOn)
    }

    /// Commands whose only word is a node's number.
    fn about_node(&mut self, words: &mut Words) -> Result<Vec<String>> {
        let strong = words.command.name == "slice" && words.flag("strong");
        let found = self.found(words)?;
        let opened = &self.opened;
        let node = found.stretch.first;
        Ok(match words.command.name {
            "node" => {
                let lines = show::node(opened, node);
                self.current = Some(found);
                lines
            }
            "events" => show::events(opened, node, words.number("limit", 40)?),
            "stack" => show::stack(opened, &found.stretch),
            "before" => show::edges(opened, node, true, words.number("limit", 20)?),
            "after" => show::edges(opened, node, false, words.number("limit", 20)?),
            "cause" => ask::cause(opened, node),
            "slice" => ask::slice(opened, &found.stretch, strong, words.number("limit", 20)?),
            "beam" => ask::beam(opened, &found.stretch, words)?,
            "kind" => ask::kind(opened, &found.stretch),
            "similar" => ask::similar(opened, &found.stretch, words)?,
            "chain" => ask::chain(opened, &found.stretch),
            other => bail!("{other} cannot be answered"),
        })
    }

    /// The node that the first word names, or the current one.
    fn found(&self, words: &Words) -> Result<Found> {
        words.at_most(1)?;
        match words.plain.first() {
            Some(word) => Ok(self.asked(self.node(word)?)),
            None => self.current(),
        }
    }

    fn current(&self) -> Result<Found> {
        self.current.context(
            "no thread recorded anything in which it may be stuck: name a node by its number, as nodes lists them",
        )
    }

    fn node(&self, word: &str) -> Result<NodeId> {
        let nodes = self.opened.graph.node_count();
        let number: Option<u32> = word.parse().ok();
        match number.filter(|&n| (n as usize) < nodes) {
            Some(number) => Ok(NodeId(number)),
            None if nodes == 0 => bail!("the graph has no nodes: no thread recorded events"),
            None => bail!(
                "{word:?} is no node: nodes lists them, from 0 to {}",
                nodes - 1
            ),
        }
    }

    fn asked(&self, node: NodeId) -> Found {
        match self.current {
            // Who asks about a node is told what is known of it, however it was chosen.
            Some(found) if found.stretch.first == node => Found {
                is_long: true,
                ..found
            },
            _ => Found {
                stretch: Stretch::of_node(&self.opened.graph, node),
                chosen: hindsight_causality::diagnosis::Chosen::Asked,
                is_long: true,
            },
        }
    }

    fn stuck(&mut self, words: &Words) -> Result<Vec<String>> {
        words.at_most(0)?;
        let session = &self.opened.session;
        let thread = words.option("thread");
        let longer = words.option("longer").map(stall_time).transpose();
        let question = StuckQuestion {
            thread: thread.map(|t| find_thread(session, t)).transpose()?,
            at_ns: words
                .option("at")
                .map(|at| parse_time(session, at))
                .transpose()?,
            least_ns: longer
                .map_err(anyhow::Error::msg)?
                .unwrap_or(hindsight_analysis::STALL_NS),
        };
        let found = stuck(session, &self.opened.graph, &question);
        let Some(found) = found else {
            bail!(
                "no thread recorded anything in which it may be stuck: ask about another time, or record events (events=all)"
            );
        };
        let mut lines = Vec::new();
        if !found.is_long {
            lines.push("No thread was stuck so long. The longest:".to_owned());
        }
        lines.push(show::node_line(&self.opened, found.stretch.first));
        self.current = Some(found);
        Ok(lines)
    }

    /// Makes the graph again. If that fails, the old one stays.
    fn rebuild(&mut self, words: &Words) -> Result<Vec<String>> {
        words.at_most(0)?;
        let rules = &self.opened.rules;
        let all = rules.rules()?.with_libraries(&self.opened.session);
        let graph = Graph::build_with(&self.opened.session, &all)?;
        let size = |graph: &Graph| {
            format!(
                "{} and {}",
                counted(graph.node_count() as u64, "node", "nodes"),
                counted(graph.edge_count() as u64, "edge", "edges")
            )
        };
        let mut lines = vec![format!(
            "With {}: {}; before: {}. The nodes have new numbers.",
            counted(rules.len() as u64, "rule", "rules"),
            size(&graph),
            size(&self.opened.graph)
        )];
        let again = self.current.and_then(|found| {
            let of = found.stretch;
            let stretch = stretch_at(&graph, of.thread, (of.begin_ns, of.end_ns))?;
            Some(Found { stretch, ..found })
        });
        self.opened.graph = graph;
        let stuck = || {
            let question = StuckQuestion::default();
            stuck(&self.opened.session, &self.opened.graph, &question)
        };
        self.current = again.or_else(stuck);
        let node = self.current.map(|found| found.stretch.first);
        lines.extend(node.map(|n| show::node_line(&self.opened, n)));
        Ok(lines)
    }

    fn path(&self, words: &Words) -> Result<Vec<String>> {
        words.at_most(2)?;
        let Some(from) = words.plain.first() else {
            bail!("from which node? {}", words.command.arguments);
        };
        let to = match words.plain.get(1) {
            Some(word) => self.node(word)?,
            None => self.current()?.stretch.first,
        };
        Ok(ask::path(&self.opened, self.node(from)?, to))
    }

    fn compare(&self, words: &Words) -> Result<Vec<String>> {
        words.at_most(2)?;
        let baseline = words.plain.first().map(|w| self.node(w)).transpose()?;
        let found = match words.plain.get(1) {
            Some(word) => self.asked(self.node(word)?),
            None => self.current()?,
        };
        ask::compare(&self.opened, &found.stretch, baseline)
    }
}

fn help(words: &Words) -> Result<Vec<String>> {
    words.at_most(1)?;
    if let Some(word) = words.plain.first() {
        let command = find(word)?;
        let mut lines = vec![
            format!("{} {}", command.name, command.arguments)
                .trim_end()
                .to_owned(),
            format!("  {}", command.about),
        ];
        if !command.more.is_empty() {
            lines.push(format!("  {}", command.more));
        }
        return Ok(lines);
    }
    let line = |c: &super::commands::Command| format!("  {:<9} {}", c.name, c.about);
    let mut lines: Vec<String> = COMMANDS.iter().map(line).collect();
    lines.push(
        "A node is named by its number; without one, the current node is meant: the stuck one at first. A command may be \
         shortened."
            .to_owned(),
    );
    Ok(lines)
}
