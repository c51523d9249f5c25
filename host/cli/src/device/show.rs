// SPDX-License-Identifier: Apache-2.0
//! Tables of the service's answers.

use std::io;

use serde_json::Value;

use crate::page::{column, Cell, Kind, Page};
use crate::words::bytes;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn text(value: &Value) -> String {
    // Texts of processes: nothing in them reaches the terminal as a control character.
    let text = value.as_str().unwrap_or_default();
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Whether anything is recorded, and if not, what changes that. An older service does not tell of the switch.
fn recording(status: &Value) -> &'static str {
    let is = |value: &Value, wanted: bool| value.as_bool() == Some(wanted);
    if is(&status["is_switched_on"], false) {
        "off by the switch: 'hindsight device switch on' ends that"
    } else if !is(&status["engine"]["enabled"], true) {
        "off: the policy says enabled = false"
    } else if is(&status["is_consent_lost"], true) {
        "nothing: what users agreed to is lost; 'hindsight device consent set LEVEL' sets it anew"
    } else {
        "on"
    }
}

/// How a process is, in words. An older service does not tell all.
fn state(process: &Value) -> String {
    let mut state = vec![text(&process["connection"])];
    if number(&process["report"]) != 0 {
        state.push(format!("report {}", number(&process["report"])));
    }
    if process["is_named"].as_bool() == Some(false) {
        state.push("has no name yet".to_owned());
    }
    if process["ring_fits"].as_bool() == Some(false) {
        state.push("no ring of its size fits the budget".to_owned());
    }
    state.join(", ")
}

/// The answer to `status`.
pub(super) fn status(page: &mut Page, status: &Value) -> io::Result<()> {
    let engine = &status["engine"];
    let (memory, limits, store) = (&engine["memory"], &engine["limits"], &status["store"]);
    let of = |a: &Value, b: &Value| format!("{} of {}", bytes(number(a)), bytes(number(b)));
    let count = |a: &Value, b: &Value| format!("{} of {}", number(a), number(b));
    let mut facts = vec![
        (
            "service",
            format!(
                "hindsightd {}, up for {} s",
                text(&status["service"]),
                number(&status["up_s"])
            ),
        ),
        ("recording", recording(status).to_owned()),
        (
            "policy",
            format!("revision {}", number(&engine["policy_revision"])),
        ),
        (
            "memory",
            of(&memory["demand_bytes"], &memory["budget_bytes"]),
        ),
        (
            "rings of calls",
            count(&memory["rings_held"], &memory["rings"]),
        ),
        (
            "reports",
            format!(
                "{} on the device, {}",
                number(&store["reports"]),
                bytes(number(&store["bytes"]))
            ),
        ),
        (
            "limits",
            format!(
                "{} reports, {} uploads",
                count(&limits["reports"], &limits["reports_limit"]),
                count(&limits["uploads"], &limits["uploads_limit"])
            ),
        ),
    ];
    let closed_ns = number(&limits["closed_for_ns"]);
    if closed_ns != 0 {
        let seconds = closed_ns.div_ceil(1_000_000_000);
        let what = format!("closed for {seconds} s: the list of reports was lost");
        facts.push(("no reports", what));
    }
    for recording in list(&engine["recordings"]) {
        let left = number(&recording["left_ns"]).div_ceil(1_000_000_000);
        facts.push((
            "being recorded",
            format!("{} for {left} s more", text(&recording["package"])),
        ));
    }
    page.facts(&facts)?;
    let columns = [
        column("pid", Kind::Number),
        column("process", Kind::Name),
        column("uid", Kind::Number),
        column("seen", Kind::Text),
        column("rings", Kind::Number),
        column("ring size", Kind::Text),
        column("other memory", Kind::Text),
        column("consent", Kind::Text),
        column("state", Kind::Text),
    ];
    let row = |process: &Value| -> Vec<Cell> {
        let seen = process["is_foreground"].as_bool() == Some(true);
        vec![
            number(&process["pid"]).to_string().into(),
            text(&process["name"]).into(),
            number(&process["uid"]).to_string().into(),
            if seen { "yes" } else { "" }.into(),
            number(&process["rings_held"]).to_string().into(),
            bytes(number(&process["ring_bytes"])).into(),
            bytes(number(&process["other_bytes"])).into(),
            text(&process["consent"]).into(),
            state(process).into(),
        ]
    };
    let rows: Vec<Vec<Cell>> = list(&engine["processes"]).iter().map(row).collect();
    page.plain("")?;
    match rows.is_empty() {
        true => page.plain("No process is connected.")?,
        false => page.table(&columns, &rows)?,
    }
    let refusals = list(&engine["refusals"]);
    if !refusals.is_empty() {
        page.plain("")?;
        page.strong(&format!(
            "Refused processes: {}; the last:",
            number(&engine["refused_processes"])
        ))?;
        for refusal in refusals {
            page.indented(&text(refusal), 2)?;
        }
    }
    if let Some(outcomes) = engine["reports"].as_object().filter(|map| !map.is_empty()) {
        let outcomes = outcomes
            .iter()
            .map(|(what, n)| format!("{} {}", number(n), what.replace('-', " ")));
        let outcomes: Vec<String> = outcomes.collect();
        page.plain("")?;
        page.plain(&format!(
            "Reports and triggers since the start: {}.",
            outcomes.join(", ")
        ))?;
    }
    Ok(())
}

/// The reports of the same group as this one, which is among them. An older service knows no groups.
pub(super) fn group_of<'a>(reports: &'a [Value], about: &'a Value) -> Vec<&'a Value> {
    let group = |about: &Value| about["group"].as_u64().or_else(|| about["report"].as_u64());
    let of_group = group(about);
    reports.iter().filter(|r| group(r) == of_group).collect()
}

/// Where the name of the process stands in the table of reports.
const PROCESS_COLUMN: usize = 3;

/// The answer to `reports`.
pub(super) fn reports(page: &mut Page, reports: &[Value]) -> io::Result<()> {
    if reports.is_empty() {
        return page.plain("There are no reports.");
    }
    // Of an older service, or where no app is known, no report has a version.
    let have_versions = reports.iter().any(|about| number(&about["version"]) != 0);
    let mut columns = vec![
        column("report", Kind::Number),
        column("group", Kind::Text),
        column("when (UTC)", Kind::Text),
        column("process", Kind::Name),
        column("pid", Kind::Number),
        column("size", Kind::Text),
        column("severity", Kind::Text),
        column("detector", Kind::Text),
        column("reason", Kind::Prose),
    ];
    if have_versions {
        columns.insert(PROCESS_COLUMN + 1, column("version", Kind::Number));
    }
    let when = |seconds: u64| {
        let time = i64::try_from(seconds)
            .ok()
            .and_then(|s| jiff::Timestamp::from_second(s).ok());
        time.map_or_else(String::new, |time| {
            time.strftime("%Y-%m-%d %H:%M:%S").to_string()
        })
    };
    let group = |about: &Value| match group_of(reports, about).len() {
        1 => String::new(),
        _ => number(&about["group"]).to_string(),
    };
    let row = |about: &Value| -> Vec<Cell> {
        let mut cells: Vec<Cell> = vec![
            number(&about["report"]).to_string().into(),
            group(about).into(),
            when(number(&about["realtime_s"])).into(),
            text(&about["process"]).into(),
            number(&about["pid"]).to_string().into(),
            bytes(number(&about["bytes"])).into(),
            text(&about["severity"]).into(),
            text(&about["detector"]).into(),
            text(&about["reason"]).into(),
        ];
        if have_versions {
            let version = match number(&about["version"]) {
                0 => String::new(),
                version => version.to_string(),
            };
            cells.insert(PROCESS_COLUMN + 1, version.into());
        }
        cells
    };
    let rows: Vec<Vec<Cell>> = reports.iter().map(row).collect();
    page.table(&columns, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_keeps_the_service_from_recording_is_told() {
        let of = |switch: bool, policy: bool, lost: bool| {
            recording(&json!({
                "is_switched_on": switch, "is_consent_lost": lost, "engine": {"enabled": policy},
            }))
        };
        assert_eq!(of(true, true, false), "on");
        for (told, remedy) in [
            (of(false, true, false), "hindsight device switch on"),
            (of(false, false, true), "hindsight device switch on"),
            (of(true, false, true), "enabled = false"),
            (of(true, true, true), "hindsight device consent set LEVEL"),
        ] {
            assert!(told.contains(remedy), "{told}");
        }
        // An older service.
        assert_eq!(recording(&json!({"engine": {"enabled": true}})), "on");
    }

    #[test]
    fn what_keeps_a_process_from_its_ring_is_told() {
        let of = |process: Value| state(&process);
        assert_eq!(
            of(json!({"connection": "lost", "report": 3})),
            "lost, report 3"
        );
        let odd = json!({"connection": "connected", "is_named": false, "ring_fits": false});
        let told = of(odd);
        assert_eq!(
            told,
            "connected, has no name yet, no ring of its size fits the budget"
        );
        let usual =
            json!({"connection": "connected", "report": 0, "is_named": true, "ring_fits": true});
        assert_eq!(of(usual), "connected");
    }

    #[test]
    fn reports_of_a_group_are_found() {
        let reports = [
            json!({"report": 1, "group": 1}),
            json!({"report": 2, "group": 2}),
            json!({"report": 3, "group": 1}),
            json!({"report": 4}),
        ];
        let numbers = |of: usize| -> Vec<u64> {
            let group = group_of(&reports, &reports[of]);
            group.iter().map(|r| number(&r["report"])).collect()
        };
        assert_eq!(numbers(0), [1, 3]);
        assert_eq!(numbers(2), [1, 3]);
        assert_eq!(numbers(1), [2]);
        assert_eq!(numbers(3), [4]);
    }
}
