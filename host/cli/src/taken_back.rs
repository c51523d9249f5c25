// SPDX-License-Identifier: Apache-2.0
//! Short calls that threads took back while they recorded.

use std::io::{self, Write as _};

use hindsight_decoder::Thread;
use serde::Serialize;

use crate::page::Page;
use crate::words::{counted, duration};

/// Which calls a thread took back.
#[derive(Serialize)]
pub(crate) struct TakenBack {
    calls: u64,
    /// ns; absent: calls of any length.
    #[serde(skip_serializing_if = "Option::is_none")]
    shorter_than_ns: Option<u64>,
}

impl TakenBack {
    /// `None` if the thread takes no calls back.
    pub(crate) fn of(thread: &Thread) -> Option<Self> {
        let stats = &thread.stats;
        (stats.rewind_below_ns != 0 || stats.taken_back != 0).then(|| TakenBack {
            calls: stats.taken_back,
            shorter_than_ns: Some(stats.rewind_below_ns).filter(|ns| *ns != u64::MAX),
        })
    }

    fn add(&mut self, other: &TakenBack) {
        self.calls += other.calls;
        let longest = self.shorter_than_ns.zip(other.shorter_than_ns);
        self.shorter_than_ns = longest.map(|(a, b)| a.max(b));
    }
}

/// Says how many calls are not in the trace because they were short.
pub(crate) fn write<'a>(
    page: &mut Page,
    threads: impl Iterator<Item = &'a TakenBack>,
) -> io::Result<()> {
    let sum = threads.fold(None, |sum: Option<TakenBack>, of_thread| {
        let mut sum = sum.unwrap_or(TakenBack {
            calls: 0,
            shorter_than_ns: Some(0),
        });
        sum.add(of_thread);
        Some(sum)
    });
    let Some(TakenBack {
        calls,
        shorter_than_ns,
    }) = sum
    else {
        return Ok(());
    };
    writeln!(page)?;
    let which = match shorter_than_ns {
        Some(ns) => format!("shorter than {}", duration(ns)),
        None => "of any length".to_owned(),
    };
    page.plain(&format!(
        "{} {which}, in which nothing longer was called and no event happened, {} left out while recording (rewind=).",
        counted(calls, "call", "calls"),
        if calls == 1 { "was" } else { "were" }
    ))
}
