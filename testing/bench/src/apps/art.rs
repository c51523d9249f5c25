// SPDX-License-Identifier: Apache-2.0
//! ART's own method tracing, streaming.

use anyhow::Result;

use super::rounds::{more, warm};
use crate::programs::Installed;

/// Rounds before the tracing begins, and with it.
const ROUNDS: usize = 3;
/// Its rounds are shorter: it is slow.
const SHARE: u64 = 50;

/// How much more CPU time the program takes with it than before, %; of each round in several processes.
pub(super) fn measure(program: &Installed, processes: usize) -> Result<Vec<f64>> {
    let mut percents = Vec::new();
    for _ in 0..processes {
        let (mut worker, times) = warm(program.worker(""), program.mode())?;
        let times = times.div_ceil(SHARE);
        let mut before = Vec::new();
        for _ in 0..ROUNDS {
            before.push(worker.work(times)?);
        }
        worker.start_arts_tracing()?;
        worker.work(times)?;
        for before in before {
            percents.push(more(worker.work(times)?, before));
        }
    }
    Ok(percents)
}
