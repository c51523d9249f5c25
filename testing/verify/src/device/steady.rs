// SPDX-License-Identifier: Apache-2.0
//! Apps that do the same again and again while the user sees them, and the service's detectors look: nothing is worth a report.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::script::Script;
use super::status::{until, Status};

/// The detectors look so often at least: more than the policy's warm-up, and what they need to find anything after that.
const LOOKS: u64 = 20;

/// Some quiet apps do steady work for so long, and until the service's detectors have looked often enough.
pub(super) fn run(script: &mut Script<'_>, time: Duration) -> Result<()> {
    let begin = Instant::now();
    let before = Status::of(&script.service)?.looks;
    let apps = script.apps.set_steady(true)?;
    if apps != 0 {
        // The time is what false reports are counted in: it decides about nothing else.
        std::thread::sleep(time);
        until(&script.service, "the service's detectors look", || {
            Ok(Status::of(&script.service)?.looks >= before + LOOKS)
        })?;
    }
    script.apps.set_steady(false)?;
    script.apps.steady += begin.elapsed() * apps as u32;
    script.read_reports()
}
