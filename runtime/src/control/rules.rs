// SPDX-License-Identifier: Apache-2.0
//! Puts the rules of a file into force, and tells their states.

use std::path::Path;

use hindsight_trace_format::catalogue::Category;
use hindsight_trace_format::container::Consent;

use crate::control::property::is_debuggable_build;
use crate::host::Severity;
use crate::rules::{self, NumberedRule, Rule, RuleReport, RuleState, Rules, Target};
use crate::session::Session;

/// Puts the rules of this file into force, instead of those before; `None` ends all rules. A file that cannot be used changes
/// nothing else than the status.
///
/// # Errors
/// A message for the user: the file cannot be used, or some of its rules cannot be followed; the others are.
pub(crate) fn load(session: &Session, file: Option<&Path>) -> Result<(), String> {
    let mut new = Rules {
        file: file.map(Path::to_owned),
        watched: session.rules().watched.clone(),
        ..Rules::default()
    };
    if let Some(file) = file {
        if session.categories() & Category::Rules.bit() == 0 {
            return Err("events of the category rules are off: switch them on first, for instance by 'events rules'".into());
        }
        let rules = rules::read(file)
            .and_then(|rules| check_values(session, file, rules))
            .inspect_err(|e| session.rules().error.clone_from(e))?;
        let mut names = session.names();
        new.rules = (rules.into_iter())
            .map(|rule| NumberedRule {
                number: names.register(&rule.name),
                rule,
            })
            .collect();
    }
    session.host.set_rules(&new.all());
    let reports = session.host.rule_reports();
    let failed: Vec<_> = (new.rules.iter())
        .zip(&reports)
        .filter(|(_, report)| report.state == RuleState::Failed)
        .map(|(rule, report)| message(file, rule, report))
        .collect();
    *session.rules() = new;
    if failed.is_empty() {
        return Ok(());
    }
    Err(failed.join("; "))
}

/// Makes events of the calls of these methods, besides the rules of the file, and instead of the methods before. Returns the numbers
/// of their names, in order; 0 if a method cannot be watched, which is logged.
pub(crate) fn watch_methods(session: &Session, methods: &[&str]) -> Vec<u32> {
    let parse = |method: &&str| {
        let line = format!("method {method} identity=none");
        let rule = rules::parse(&line).ok().and_then(|mut found| found.pop());
        let mut rule = rule?;
        (*method).clone_into(&mut rule.name);
        Some(rule)
    };
    let parsed: Vec<Option<Rule>> = methods.iter().map(parse).collect();
    let mut names = session.names();
    let numbered: Vec<Option<NumberedRule>> = (parsed.into_iter())
        .map(|rule| {
            let rule = rule?;
            let number = names.register(&rule.name);
            Some(NumberedRule { rule, number }).filter(|_| number != 0)
        })
        .collect();
    drop(names);
    let watched: Vec<NumberedRule> = numbered.iter().flatten().cloned().collect();
    let mut rules = session.rules();
    if rules.watched != watched {
        rules.watched = watched;
        session.host.set_rules(&rules.all());
    }
    let numbers = numbered.iter().zip(methods).map(|(rule, method)| {
        if rule.is_none() {
            let message = format!("slow-method: {method} is no method that can be watched");
            session.host.log(Severity::Warning, &message);
        }
        rule.as_ref().map_or(0, |rule| rule.number)
    });
    numbers.collect()
}

/// Refuses rules that record values, unless the configuration allows that, and on a device the build.
fn check_values(session: &Session, file: &Path, rules: Vec<Rule>) -> Result<Vec<Rule>, String> {
    let with_value = |rule: &&Rule| matches!(rule.target, Target::Field { value: true, .. });
    let Some(rule) = rules.iter().find(with_value) else {
        return Ok(rules);
    };
    let refused = |why: &str| Err(format!("{}:{}: {why}", file.display(), rule.line));
    if !session.config.values {
        return refused(
            "the configuration does not allow value=yes: start the process with values=yes",
        );
    }
    if session.config.consent != Consent::Content {
        return refused("value=yes needs consent=content");
    }
    if !is_debuggable_build() {
        return refused("value=yes is for debuggable builds only (ro.debuggable)");
    }
    Ok(rules)
}

/// As [`load`], at the start: an error is logged.
pub(crate) fn load_configured(session: &Session) {
    let Some(file) = &session.config.rules else {
        return;
    };
    if let Err(message) = load(session, Some(file)) {
        let message = format!("rules: {message}");
        session.host.log(Severity::Error, &message);
    }
}

/// What the runtime says about a rule, with its place in the file.
fn message(file: Option<&Path>, rule: &NumberedRule, report: &RuleReport) -> String {
    let file = file.unwrap_or(Path::new("rules"));
    format!("{}:{}: {}", file.display(), rule.rule.line, report.message)
}

/// The rules as JSON, for the status.
pub(crate) fn status(session: &Session) -> String {
    let rules = session.rules();
    let reports = session.host.rule_reports();
    let each: Vec<_> = (rules.rules.iter())
        .zip(&reports)
        .map(|(rule, report)| {
            format!(
                r#"{{"line":{},"name":{},"state":"{}","message":{}}}"#,
                rule.rule.line,
                json_string(&rule.rule.name),
                report.state.name(),
                json_string(&report.message)
            )
        })
        .collect();
    let file = rules.file.as_ref().map_or("null".into(), |file| {
        json_string(&file.display().to_string())
    });
    format!(
        r#"{{"file":{file},"error":{},"rules":[{}]}}"#,
        json_string(&rules.error),
        each.join(",")
    )
}

/// A text as a JSON string.
fn json_string(text: &str) -> String {
    let mut json = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            c if c.is_control() => json.push_str(&format!("\\u{:04x}", c as u32)),
            c => json.push(c),
        }
    }
    json + "\""
}
