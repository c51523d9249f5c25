// SPDX-License-Identifier: Apache-2.0
//! Where the cost of tracing that is off comes from: builds of one ART whose code has other trace points.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use hindsight_lab::Variant;

use super::pairs;
use crate::ahead::{Environment, LEFT_OUT};
use crate::programs::{Device, Mode, Program};
use crate::statistics::{interval_of_median, median};

/// The trace points of compiled code, and the environment that chooses them.
const FORMS: [(&str, Environment); 3] = [
    ("none", &[("HINDSIGHT_TRACE_POINTS", "none")]),
    ("points", &[]),
    ("trivial", LEFT_OUT),
];

/// Puts `NAME_off_FORM_pct`, what each form costs more than stock ART, %, with the ends of its interval.
pub(super) fn measure(
    checkout: &Path,
    scratch: &Path,
    stock: &Device,
    programs: &[Program],
    pairs: usize,
    metrics: &mut BTreeMap<String, f64>,
) -> Result<()> {
    for (form, environment) in FORMS {
        let folder = scratch.join(form);
        let device = Device::open(Variant::Hindsight, checkout, &folder, environment)?;
        for program in programs {
            let installed = (
                stock.install(program, Mode::Ahead)?,
                device.install(program, Mode::Ahead)?,
            );
            let costs = pairs::measure(&installed.0, &installed.1, pairs)
                .with_context(|| format!("{}, {form}", program.name))?;
            let (low, high) = interval_of_median(&costs.off);
            let middle = median(costs.off.iter().copied());
            let name = format!("{}_off_{form}_pct", program.name);
            println!("{name}: {middle:.1} % ({low:.1} to {high:.1})");
            for (end, value) in [("", middle), ("_low", low), ("_high", high)] {
                metrics.insert(format!("{name}{end}"), value);
            }
        }
    }
    Ok(())
}
