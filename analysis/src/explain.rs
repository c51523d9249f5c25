// SPDX-License-Identifier: Apache-2.0
//! A chain of calls, in plain words.

use std::fmt::Write;

use crate::{Chain, Evidence, Link};

/// What to write before and after the parts of a text that should stand out; empty for plain text.
#[derive(Clone, Copy, Debug)]
pub struct Palette {
    /// Before the most important words.
    pub strong: &'static str,
    /// Before what is only context.
    pub dim: &'static str,
    /// After either.
    pub reset: &'static str,
}

impl Palette {
    /// Plain text.
    pub const PLAIN: Palette = Palette {
        strong: "",
        dim: "",
        reset: "",
    };
    /// For a terminal.
    pub const ANSI: Palette = Palette {
        strong: "\x1b[1m",
        dim: "\x1b[2m",
        reset: "\x1b[0m",
    };
}

/// A duration as people say it, with three significant digits: `702 ms`, `1.43 s`, `12 ns`.
pub fn duration(ns: u64) -> String {
    const UNITS: [(f64, &str); 4] = [(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")];
    let value = ns as f64;
    // 999.5 would be rounded up to 1000.
    let (scale, unit) = UNITS
        .into_iter()
        .find(|(scale, _)| value / scale < 999.5)
        .unwrap_or(UNITS[3]);
    let value = value / scale;
    let decimals = match value {
        _ if scale == 1.0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// Says what held the thread up, and what other threads did meanwhile. Ends with a line break.
pub fn explain(chain: &Chain, palette: Palette) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_chain(&mut out, chain, palette);
    out
}

fn write_chain(out: &mut String, chain: &Chain, p: Palette) -> std::fmt::Result {
    let Palette { strong, dim, reset } = p;
    let held = duration(chain.held_ns);
    if chain.still_running {
        writeln!(
            out,
            "{strong}Thread \"{}\" (tid {}) had been held for {held} when the trace was taken:{reset}",
            chain.thread, chain.tid
        )?;
    } else {
        writeln!(
            out,
            "{strong}Thread \"{}\" (tid {}) was held for {held}{reset}, until {} before the trace was taken:",
            chain.thread,
            chain.tid,
            duration(chain.ended_before_ns)
        )?;
    }
    writeln!(out)?;
    write_calls(out, &chain.callers, &chain.links, p)?;
    writeln!(out)?;

    let Some(last) = chain.links.last() else {
        return Ok(());
    };
    if !chain.rest.callees.is_empty() {
        writeln!(out, "{} took its time in many calls:", last.method)?;
        for callee in &chain.rest.callees {
            let calls = if callee.calls == 1 { "call" } else { "calls" };
            writeln!(
                out,
                "    {:>8}  {} ({} {calls})",
                duration(callee.ns),
                callee.method,
                callee.calls
            )?;
        }
        return Ok(());
    }
    let gap = duration(chain.rest.longest_gap_ns);
    match &chain.lock_owner {
        Some(owner) => {
            let name = match &owner.thread {
                Some(name) => format!("\"{name}\" (tid {})", owner.tid),
                None => format!("{}, whose ring is not in the trace", owner.tid),
            };
            writeln!(
                out,
                "{} waited {gap} for the lock {:#x}, held by thread {name}.",
                last.method, owner.lock
            )?;
        }
        None if chain.rest.sleeps => writeln!(out, "{} slept or waited {gap}.", last.method)?,
        None => writeln!(
            out,
            "{} called nothing for {gap}: it waited, or computed.",
            last.method
        )?,
    }
    for evidence in &chain.evidence {
        writeln!(out)?;
        write_evidence(out, evidence, last, p)?;
    }
    if chain.evidence.is_empty() {
        writeln!(
            out,
            "{dim}No other traced thread was busy all that time.{reset}"
        )?;
    }
    if let Some((method, thread)) = &chain.culprit {
        writeln!(out)?;
        writeln!(
            out,
            "{strong}Culprit: {method}, on thread \"{thread}\"{reset}"
        )?;
    }
    Ok(())
}

fn write_evidence(out: &mut String, e: &Evidence, waited: &Link, p: Palette) -> std::fmt::Result {
    writeln!(
        out,
        "Meanwhile thread \"{}\" (tid {}) was in:",
        e.thread, e.tid
    )?;
    writeln!(out)?;
    write_calls(out, &e.callers, &e.links, p)?;
    writeln!(out)?;
    let Some(last) = e.links.last() else {
        return Ok(());
    };
    let percent = (e.share * 100.0).floor();
    let own = e
        .links
        .iter()
        .rev()
        .find(|l| l.own)
        .filter(|own| own.method != last.method);
    let what = if e.sleeps { "slept" } else { "was" };
    write!(
        out,
        "It {what} in {} for {} ({percent} %)",
        last.method,
        duration(last.ns)
    )?;
    if let Some(own) = own {
        write!(out, ", called by {}", own.method)?;
    }
    writeln!(out, ".")?;
    let Some(together) = e.ended_together.and_then(|i| e.links.get(i)) else {
        return Ok(());
    };
    let conclusion = if e.owns_lock {
        "it held the lock"
    } else if e.same_class {
        "it is a method of the same class, so most likely it held the lock"
    } else {
        "most likely it was waited for"
    };
    writeln!(
        out,
        "{} ended {} {} {} went on: {conclusion}.",
        together.method,
        duration(e.end_gap_ns.unsigned_abs()),
        if e.end_gap_ns < 0 { "after" } else { "before" },
        waited.method
    )
}

/// One call a line, indented by depth, times in a column of their own.
fn write_calls(
    out: &mut String,
    callers: &[String],
    links: &[Link],
    p: Palette,
) -> std::fmt::Result {
    let Palette { strong, dim, reset } = p;
    const INDENT: usize = 2;
    let rows = callers.iter().map(|c| c.chars().count());
    let rows = rows.chain(links.iter().map(|l| l.method.chars().count()));
    let width = rows
        .enumerate()
        .map(|(i, n)| INDENT * i + n)
        .max()
        .unwrap_or(0);
    for (i, caller) in callers.iter().enumerate() {
        writeln!(out, "    {dim}{:1$}{caller}{reset}", "", INDENT * i)?;
    }
    for (i, link) in links.iter().enumerate() {
        let indent = INDENT * (callers.len() + i);
        let is_last = i + 1 == links.len();
        let (before, after) = if is_last { (strong, reset) } else { ("", "") };
        writeln!(
            out,
            "    {:indent$}{before}{:rest$}{after}  {:>8}",
            "",
            link.method,
            duration(link.ns),
            rest = width - indent
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_and_the_unit_that_fits() {
        let expected = [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (9_994, "9.99 µs"),
            (9_995, "10.0 µs"),
            (99_950, "100 µs"),
            (999_499, "999 µs"),
            (999_500, "1.00 ms"),
            (702_400_000, "702 ms"),
            (1_430_000_000, "1.43 s"),
            (123_456_000_000_000, "123456 s"),
        ];
        for (ns, text) in expected {
            assert_eq!(duration(ns), text, "{ns}");
        }
    }
}
