// SPDX-License-Identifier: Apache-2.0
//! The debugger's commands, and their words.

use anyhow::{bail, ensure, Result};

/// A command, as help shows it.
pub(super) struct Command {
    pub(super) name: &'static str,
    pub(super) arguments: &'static str,
    pub(super) about: &'static str,
    /// The names of its options.
    pub(super) options: &'static [&'static str],
    /// What else help says of it.
    pub(super) more: &'static str,
}

/// `N` is the number of a node; without it, the current node is meant.
pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "help",
        arguments: "[COMMAND]",
        about: "lists the commands, or explains one",
        options: &[],
        more: "",
    },
    Command {
        name: "info",
        arguments: "",
        about: "the files, the graph, and what was left out of it",
        options: &[],
        more: "Events without the other end of their pair made no edge. hindsight events lists them.",
    },
    Command {
        name: "threads",
        arguments: "[PATTERN]",
        about: "the threads, with the numbers of their nodes and events",
        options: &[],
        more: "* and ? stand for any characters.",
    },
    Command {
        name: "nodes",
        arguments: "[thread=T] [process=P] [kind=K] [text=X] [from=TIME] [to=TIME] [longer=TIME] [limit=N]",
        about: "finds nodes, in the order of time",
        options: &[
            "thread=", "process=", "kind=", "text=", "from=", "to=", "longer=", "limit=",
        ],
        more: "Kinds: run, message, task, frame, traversal, input, service, lifecycle, marked, rule, wait, idle, \
               maintenance. The text is searched for in the class of the work. Times are after the beginning (1.5s) or \
               before the end (-200ms).",
    },
    Command {
        name: "node",
        arguments: "[N]",
        about: "describes a node, and makes it the current one",
        options: &[],
        more: "",
    },
    Command {
        name: "events",
        arguments: "[N] [limit=N]",
        about: "the events of a node",
        options: &["limit="],
        more: "",
    },
    Command {
        name: "stack",
        arguments: "[N]",
        about: "where the thread was for most of a node",
        options: &[],
        more: "From its calls, or from stacks (events=stacks).",
    },
    Command {
        name: "before",
        arguments: "[N] [limit=N]",
        about: "the edges to a node: its causes",
        options: &["limit="],
        more: "Strong edges are causes. Weak ones come earlier in the thread, or from a lock that may be mutual exclusion only.",
    },
    Command {
        name: "after",
        arguments: "[N] [limit=N]",
        about: "the edges from a node: its effects",
        options: &["limit="],
        more: "",
    },
    Command {
        name: "path",
        arguments: "FROM [TO]",
        about: "a shortest path of edges from a node to the current one",
        options: &[],
        more: "",
    },
    Command {
        name: "cause",
        arguments: "[N]",
        about: "what began a node: one path of causes",
        options: &[],
        more: "It ends at the user's input, or at a thread's own code.",
    },
    Command {
        name: "slice",
        arguments: "[N] [strong] [limit=N]",
        about: "all nodes that led to a node (backward slicing)",
        options: &["strong", "limit="],
        more: "strong: over strong edges only.",
    },
    Command {
        name: "beam",
        arguments: "[N] [width=W] [lookback=L] [limit=N]",
        about: "the most likely paths to a node (beam search)",
        options: &["width=", "lookback=", "limit="],
        more: "A strong edge takes 1 off a path's penalty, a weak one adds 1. Without a width, 1, 3 and 10 are tried. The look-back \
               is the number of steps after which the best paths are kept (5).",
    },
    Command {
        name: "stuck",
        arguments: "[thread=T] [at=TIME] [longer=TIME]",
        about: "finds the stuck node, and makes it the current one",
        options: &["thread=", "at=", "longer="],
        more: "",
    },
    Command {
        name: "kind",
        arguments: "[N]",
        about: "busy, blocked, or a yield loop",
        options: &[],
        more: "Busy: it used the processor for more than half of the time. Blocked: it waited, or slept, for more than half of the \
               time. A yield loop: 8 pauses of less than 100 ms or more, which are more than a third of its steps.",
    },
    Command {
        name: "similar",
        arguments: "[N] [preceding=K] [least=TIME] [kinds=EVENT,…] [limit=N]",
        about: "nodes that did the same, and whose wait ended otherwise, or that were shorter",
        options: &["preceding=", "least=", "kinds=", "limit="],
        more: "preceding: so many nodes before both have to be alike, too. least: the least difference of their lengths; default: half \
               of the node's. kinds: only events with these names have to be alike, such as kinds=\"wait begins,message enqueued\"; \
               default: all that tell what a node does.",
    },
    Command {
        name: "compare",
        arguments: "[M] [N]",
        about: "what was different when the similar node M went well",
        options: &[],
        more: "Default of M: the nearest similar node.",
    },
    Command {
        name: "chain",
        arguments: "[N]",
        about: "whom the thread waited for, and whom that one waited for, and so on",
        options: &[],
        more: "",
    },
    Command {
        name: "diagnose",
        arguments: "[N]",
        about: "all of it, as hindsight diagnose does",
        options: &[],
        more: "",
    },
    Command {
        name: "rule",
        arguments: "[add RULE | list | remove N | save FILE]",
        about: "adds, lists, takes away or saves the rules that correct the graph; rebuild applies them",
        options: &[],
        more: "A rule is its kind (split, merge, priority, edge, strong, weak, ignore), then NAME=VALUE: strong reason=lock \
               from.class=app.Producer*, or split event=\"item taken\" thread=Batcher*; or one line of TOML: ignore = [{ reason = \
               \"lock\" }]. save writes a file for --rules; comments of the one that was read are not kept.",
    },
    Command {
        name: "rebuild",
        arguments: "",
        about: "makes the graph again, with the rules as they are now",
        options: &[],
        more: "Nodes get new numbers. The current node stays the one at its time.",
    },
    Command {
        name: "quit",
        arguments: "",
        about: "ends the debugger",
        options: &[],
        more: "",
    },
];

/// The command with this name, or that begins so, if it is the only one.
pub(super) fn find(word: &str) -> Result<&'static Command> {
    let word = match word {
        "exit" | "q" => "quit",
        "?" => "help",
        "rules" => "rule",
        other => other,
    };
    if let Some(command) = COMMANDS.iter().find(|c| c.name == word) {
        return Ok(command);
    }
    let like: Vec<&Command> = COMMANDS
        .iter()
        .filter(|c| c.name.starts_with(word))
        .collect();
    match like[..] {
        [one] => Ok(one),
        [] => bail!("there is no command {word:?}: help lists them"),
        _ => {
            let names: Vec<&str> = like.iter().map(|c| c.name).collect();
            bail!("{word:?} may be {}", names.join(", "))
        }
    }
}

/// A line of input.
pub(super) struct Words {
    pub(super) command: &'static Command,
    /// Words without `=`.
    pub(super) plain: Vec<String>,
    options: Vec<(String, String)>,
}

impl Words {
    /// # Errors
    /// If there is no such command, or it has no such option.
    pub(super) fn parse(line: &str) -> Result<Self> {
        let Some(words) = shlex::split(line) else {
            bail!("a quotation mark is not closed");
        };
        let mut words = words.into_iter();
        let command = find(&words.next().unwrap_or_default())?;
        let mut parsed = Words {
            command,
            plain: Vec::new(),
            options: Vec::new(),
        };
        for word in words {
            match word.split_once('=') {
                Some((name, value)) => {
                    let is_known = command
                        .options
                        .iter()
                        .any(|o| o.strip_suffix('=') == Some(name));
                    ensure!(is_known, "{}", unknown_option(command, name));
                    parsed.options.push((name.to_owned(), value.to_owned()));
                }
                None => parsed.plain.push(word),
            }
        }
        Ok(parsed)
    }

    /// The value of an option.
    pub(super) fn option(&self, name: &str) -> Option<&str> {
        let mut options = self.options.iter().rev();
        options.find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// The number of an option.
    pub(super) fn number(&self, name: &str, default: usize) -> Result<usize> {
        match self.option(name).map(|v| (v, v.parse())) {
            None => Ok(default),
            Some((_, Ok(number))) if number > 0 => Ok(number),
            Some((value, _)) => bail!("{name}={value}: write a number from 1 on"),
        }
    }

    /// Whether the word is there; takes it away.
    pub(super) fn flag(&mut self, word: &str) -> bool {
        let before = self.plain.len();
        self.plain.retain(|w| w != word);
        self.plain.len() < before
    }

    /// # Errors
    /// If there are more words than this.
    pub(super) fn at_most(&self, words: usize) -> Result<()> {
        let name = self.command.name;
        ensure!(
            self.plain.len() <= words,
            "{:?} is too much: {name} {}",
            self.plain[words],
            self.command.arguments
        );
        Ok(())
    }
}

fn unknown_option(command: &Command, name: &str) -> String {
    match command.options {
        [] => format!("{} has no options", command.name),
        options => format!(
            "{} has no option {name:?}; it has {}",
            command.name,
            options.join(", ")
        ),
    }
}
