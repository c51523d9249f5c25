// SPDX-License-Identifier: Apache-2.0
//! Whether several traces have one clock.
//!
//! CLOCK_BOOTTIME begins with the boot. Traces of one boot have the same difference between the time of day and
//! CLOCK_BOOTTIME, unless the time of day was set in between; then they are kept apart, too: a wrong edge is worse than a
//! missing one.

use hindsight_decoder::Trace;

/// Differences between the time of day and CLOCK_BOOTTIME that are less than this apart are of one boot, ns. Corrections of
/// the time of day by the network are smaller, and no device boots so fast.
pub(crate) const SAME_BOOT_NS: u64 = 2_000_000_000;
/// Facts about the device.
const DEVICE_FACTS: [&str; 2] = ["build.fingerprint", "device.hash"];

/// Why a trace is not joined with the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disagreement {
    /// Its time of day does not fit: it is of another boot, or the time of day was set in between.
    OtherBoot {
        /// How far its clock is apart from that of the other traces, ns.
        apart_ns: u64,
    },
    /// It is of another device: this fact differs.
    OtherDevice {
        /// Name of the fact.
        fact: &'static str,
    },
    /// It is an earlier snapshot of a process of which there is a later one.
    Earlier {
        /// Index of the later trace.
        later: usize,
    },
}

impl Disagreement {
    /// The reason in words.
    pub fn words(&self) -> String {
        match self {
            Disagreement::OtherBoot { apart_ns } => format!(
                "its clock is {:.3} s apart from that of the other traces: it is of another boot, or the time of day was set in between",
                *apart_ns as f64 / 1e9
            ),
            Disagreement::OtherDevice { fact } => {
                format!("it is of another device: {fact} differs")
            }
            Disagreement::Earlier { .. } => {
                "it is an earlier snapshot of a process of which there is a later one".to_owned()
            }
        }
    }
}

/// The time of day when CLOCK_BOOTTIME was 0, ns; `None` if the trace does not say it.
pub(crate) fn boot_ns(trace: &Trace) -> Option<u64> {
    let reference = trace.clock.reference();
    (reference.realtime_ns != 0)
        .then(|| reference.realtime_ns.saturating_sub(reference.boottime_ns))
}

fn fact<'t>(trace: &'t Trace, name: &str) -> Option<&'t str> {
    let mut facts = trace.process.extra.iter();
    facts.find(|(key, _)| key == name).map(|(_, v)| v.as_str())
}

/// For each trace, why it is not joined with the others. The largest group of traces with one clock stays together; of two
/// groups of the same size, the one with the earlier trace in the list.
pub(crate) fn disagreements(traces: &[&Trace]) -> Vec<Option<Disagreement>> {
    let boots: Vec<Option<u64>> = traces.iter().map(|t| boot_ns(t)).collect();
    let near = |a: u64, b: u64| a.abs_diff(b) < SAME_BOOT_NS;
    let group = |boot: u64| boots.iter().flatten().filter(|&&b| near(b, boot)).count();
    // The first one of those with the most traces.
    let boot = boots.iter().flatten().copied();
    let boot = boot.rev().max_by_key(|&b| group(b));
    let with_boot = |b: &Option<u64>| b.zip(boot).is_none_or(|(b, boot)| near(b, boot));
    let device = |name: &str| {
        let of_boot = traces.iter().zip(&boots).filter(|(_, b)| with_boot(b));
        of_boot.filter_map(|(t, _)| fact(t, name)).next()
    };
    let devices = DEVICE_FACTS.map(|name| (name, device(name)));
    let mut found = Vec::with_capacity(traces.len());
    for (i, (trace, boot_of)) in traces.iter().zip(&boots).enumerate() {
        let differs = devices.iter().find(|(name, expected)| {
            let own = fact(trace, name);
            own.zip(*expected).is_some_and(|(own, e)| own != e)
        });
        found.push(if let Some((fact, _)) = differs {
            Some(Disagreement::OtherDevice { fact })
        } else if !with_boot(boot_of) {
            let apart_ns = boot_of.zip(boot).map_or(0, |(a, b)| a.abs_diff(b));
            Some(Disagreement::OtherBoot { apart_ns })
        } else {
            later_snapshot(traces, &boots, i).map(|later| Disagreement::Earlier { later })
        });
    }
    found
}

/// The last snapshot of the same process, if there is a later one: the time of both overlaps.
fn later_snapshot(traces: &[&Trace], boots: &[Option<u64>], i: usize) -> Option<usize> {
    let own = traces[i];
    if own.process.pid == 0 {
        return None;
    }
    let same_boot = |j: usize| match (boots[i], boots[j]) {
        (Some(a), Some(b)) => a.abs_diff(b) < SAME_BOOT_NS,
        _ => true,
    };
    let is_later = |&j: &usize| {
        let other = traces[j];
        other.process.pid == own.process.pid
            && other.process.name == own.process.name
            && same_boot(j)
            && other.start_ns() < own.end_ns()
            && (own.end_ns(), i) < (other.end_ns(), j)
    };
    let later = (0..traces.len()).filter(is_later);
    later.max_by_key(|&j| (traces[j].end_ns(), j))
}
