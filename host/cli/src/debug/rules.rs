// SPDX-License-Identifier: Apache-2.0
//! Rules that are added, shown, taken away and saved while the debugger runs.

use std::path::Path;

use anyhow::{anyhow, bail, ensure, Context, Result};
use hindsight_causality::{RuleList, RulesError};

use crate::words::counted;

/// Answers `rule …`: `rest` is what follows the command, as it was written.
pub(super) fn run(rules: &mut RuleList, rest: &str) -> Result<Vec<String>> {
    let rest = rest.trim();
    let (what, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let rest = rest.trim();
    match what {
        "" | "list" => {
            ensure!(rest.is_empty(), "{rest:?} is too much: rule list");
            Ok(list(rules))
        }
        "add" => add(rules, rest),
        "remove" => remove(rules, rest),
        "save" => save(rules, rest),
        other => bail!("there is no rule {other:?}: write rule add, list, remove or save"),
    }
}

/// A rule as `rule add` takes it.
fn short(words: &[String]) -> String {
    let quoted = |text: &str| match shlex::try_quote(text) {
        Ok(quoted) => quoted.into_owned(),
        Err(_) => format!("{text:?}"),
    };
    let word = |word: &String| match word.split_once('=') {
        Some((name, value)) => format!("{name}={}", quoted(value)),
        None => word.clone(),
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn list(rules: &RuleList) -> Vec<String> {
    if rules.is_empty() {
        return vec!["There are no rules: rule add adds one.".to_owned()];
    }
    let numbered = rules.words().enumerate();
    numbered
        .map(|(i, words)| format!("rule {}: {}", i + 1, short(&words)))
        .collect()
}

fn add(rules: &mut RuleList, text: &str) -> Result<Vec<String>> {
    ensure!(
        !text.is_empty(),
        "which rule? As in: rule add strong reason=lock from.class=app.Producer*"
    );
    // A line of TOML has arrays and tables, the short form has not.
    let is_toml = text.contains('{') || text.starts_with('[');
    let new = match is_toml {
        true => RuleList::parse(text),
        false => {
            let words = shlex::split(text).context("a quotation mark is not closed")?;
            RuleList::of_words(&words)
        }
    };
    let refused = |e: RulesError| anyhow!("the rule is refused: {}", e.message);
    let new = new.map_err(refused)?;
    ensure!(
        !new.is_empty(),
        "that has no rule: write KIND = [{{ … }}], as in ignore = [{{ reason = \"lock\" }}]"
    );
    let first = rules.len();
    rules.add(new).map_err(refused)?;
    let mut lines = list(rules).split_off(first);
    lines.push("rebuild makes the graph with it.".to_owned());
    Ok(lines)
}

fn remove(rules: &mut RuleList, text: &str) -> Result<Vec<String>> {
    let number: Option<usize> = text.parse().ok();
    let index = number.and_then(|n| n.checked_sub(1));
    let Some(index) = index.filter(|&i| i < rules.len()) else {
        match rules.len() {
            0 => bail!("there is no rule {text:?}: there are none"),
            n => bail!("there is no rule {text:?}: rule list shows them, from 1 to {n}"),
        }
    };
    let line = list(rules).swap_remove(index);
    rules.remove(index);
    Ok(vec![
        format!("Taken away: {line}"),
        "The others behind it have new numbers; rebuild makes the graph without it.".to_owned(),
    ])
}

/// Saves the rules: the file is whole under its name, or not there.
fn save(rules: &RuleList, text: &str) -> Result<Vec<String>> {
    let words = shlex::split(text).context("a quotation mark is not closed")?;
    let [name] = &words[..] else {
        bail!("to which file? rule save FILE");
    };
    let path = Path::new(name);
    crate::output::write_file(path, |file| file.write_all(rules.text().as_bytes()))?;
    Ok(vec![format!(
        "{name}: {}; --rules takes it.",
        counted(rules.len() as u64, "rule", "rules")
    )])
}
