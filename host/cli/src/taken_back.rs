// SPDX-License-Identifier: Apache-2.0
//! Short calls that threads took back while they recorded.

use std::io::{self, Write as _};

use hindsight_analysis::Summary;
use hindsight_decoder::{Mode, Thread, Trace};
use serde::Serialize;

use crate::page::Page;
use crate::words::{counted, duration};

/// Which calls threads took back.
#[derive(Clone, Serialize)]
pub(crate) struct TakenBack {
    calls: u64,
    /// ns; absent: calls of any length.
    #[serde(skip_serializing_if = "Option::is_none")]
    shorter_than_ns: Option<u64>,
}

impl TakenBack {
    /// `None` if the thread takes no calls back.
    pub(crate) fn of(thread: &Thread) -> Option<Self> {
        thread.takes_calls_back().then(|| TakenBack {
            calls: thread.stats.taken_back,
            shorter_than_ns: Some(thread.stats.rewind_below_ns).filter(|ns| *ns != u64::MAX),
        })
    }

    /// Of all threads of a trace; `None` if none takes calls back.
    pub(crate) fn of_trace(trace: &Trace) -> Option<Self> {
        let threads = trace.threads.iter().filter_map(TakenBack::of);
        threads.reduce(|sum, of_thread| sum.with(&of_thread))
    }

    /// Of all traces of a summary; `None` if no thread takes calls back.
    pub(crate) fn of_summary(summary: &Summary) -> Option<Self> {
        let (main, others) = (summary.main.taken_back, summary.others.taken_back);
        let calls = main.saturating_add(others);
        let below_ns = summary.rewind_below_ns();
        (calls != 0 || below_ns != 0).then(|| TakenBack {
            calls,
            shorter_than_ns: Some(below_ns).filter(|ns| *ns != u64::MAX),
        })
    }

    /// Together.
    pub(crate) fn with(self, other: &TakenBack) -> Self {
        let longest = self.shorter_than_ns.zip(other.shorter_than_ns);
        TakenBack {
            calls: self.calls.saturating_add(other.calls),
            shorter_than_ns: longest.map(|(a, b)| a.max(b)),
        }
    }
}

/// Adds the calls that another trace left out to a sum.
pub(crate) fn add(sum: &mut Option<TakenBack>, of_trace: Option<TakenBack>) {
    *sum = match (sum.take(), of_trace) {
        (Some(sum), Some(other)) => Some(sum.with(&other)),
        (sum, other) => sum.or(other),
    };
}

/// Says how many calls are not in the trace because they were short, if any.
pub(crate) fn write(page: &mut Page, sum: Option<&TakenBack>) -> io::Result<()> {
    let Some(TakenBack {
        calls,
        shorter_than_ns,
    }) = sum.filter(|sum| sum.calls > 0)
    else {
        return Ok(());
    };
    writeln!(page)?;
    let which = match shorter_than_ns {
        Some(ns) => format!("shorter than {}", duration(*ns)),
        None => "of any length".to_owned(),
    };
    page.plain(&format!(
        "{} {which}, in which nothing longer was called and no event happened, {} left out since recording into these \
         rings began (rewind=).",
        counted(*calls, "call", "calls"),
        if *calls == 1 { "was" } else { "were" }
    ))
}

/// The limits below which the threads of traces took calls back.
#[derive(Default)]
pub(crate) struct Limits(Option<(u64, u64)>);

impl Limits {
    /// Adds the limits of the threads that recorded calls.
    pub(crate) fn add(&mut self, trace: &Trace) {
        for thread in trace.threads.iter().filter(|t| t.mode != Mode::Events) {
            let limit = thread.stats.rewind_below_ns;
            let (least, most) = self.0.unwrap_or((limit, limit));
            self.0 = Some((least.min(limit), most.max(limit)));
        }
    }

    /// Whether they differ by more than conversions to counter ticks explain.
    pub(crate) fn differ(&self, other: &Limits) -> bool {
        let differ = |a: u64, b: u64| a.abs_diff(b) > a.max(b) / 20;
        match (self.0, other.0) {
            (Some(a), Some(b)) => differ(a.0, b.0) || differ(a.1, b.1),
            _ => false,
        }
    }

    /// `none`, `50.0 µs`, `none to 50.0 µs`
    pub(crate) fn text(&self) -> String {
        let limit = |ns| match ns {
            0 => "none".to_owned(),
            u64::MAX => "any length".to_owned(),
            ns => duration(ns),
        };
        match self.0 {
            Some((least, most)) if least != most => format!("{} to {}", limit(least), limit(most)),
            limits => limit(limits.map_or(0, |(least, _)| least)),
        }
    }
}
