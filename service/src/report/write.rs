// SPDX-License-Identifier: Apache-2.0
//! From a process's memory to a report in the store.

use std::fs::File;
use std::sync::Arc;

use hindsight_trace_format::container::{Consent, Limit, ProcessFacts, REMOVED};
use hindsight_trace_format::shared::{BootNames, Ending, ReadLimits, RingFilter, SharedReader};

use crate::context::{Context, LogRequest, Metrics};
use crate::engine::{About, Peer, Report};
use crate::os::System;
use crate::policy::Level;
use crate::store::{Entry, PublishError, ReportWriter, Store};

use super::boot_names;

/// Lines of a log from so long before a report are kept with it, ns.
const LOG_NS: u64 = 300_000_000_000;

/// A report to be written.
#[derive(Debug)]
pub struct WriteJob {
    /// Its number.
    pub report: Report,
    /// The memory of the process.
    pub memory: Arc<File>,
    /// The process, by the kernel's account.
    pub peer: Peer,
    /// What it is about.
    pub about: About,
    /// The process has ended: its rings do not change any more.
    pub has_ended: bool,
    /// What is read at most.
    pub limits: ReadLimits,
    /// Metrics of the last minutes.
    pub metrics: Metrics,
}

/// The detector's name, which comes from the process: a text of any other form may say anything.
fn detector(name: &str, consent: Consent) -> String {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_name = name.len() <= 40 && name.chars().all(is_word);
    match is_name || consent == Consent::Content {
        true => name.to_owned(),
        false => REMOVED.to_owned(),
    }
}

impl WriteJob {
    fn entry(&self, system: &dyn System) -> Entry {
        let about = &self.about;
        let mut facts = ProcessFacts {
            name: about.process.clone(),
            reason: about.reason.clone(),
            ..ProcessFacts::default()
        };
        Limit::new(about.consent).process(&mut facts);
        let now = system.now();
        // When it was noticed, by the clock as it is now.
        let ago = now.boottime_ns.saturating_sub(about.at_boottime_ns);
        Entry {
            report: self.report,
            group: about.group,
            realtime_s: now.realtime_ns.saturating_sub(ago) / 1_000_000_000,
            boottime_ns: about.at_boottime_ns,
            severity: about.severity.name().to_owned(),
            detector: detector(&about.detector, about.consent),
            reason: facts.reason,
            process: facts.name,
            pid: self.peer.pid,
            uid: self.peer.uid,
            tid: about.tid,
            has_ended: self.has_ended,
            consent: about.consent.name().to_owned(),
            service: env!("CARGO_PKG_VERSION").to_owned(),
            ..Entry::default()
        }
    }

    /// What is known around the report, as far as its level allows.
    fn context(&self, store: &mut Store, system: &dyn System) -> Context {
        let about = &self.about;
        let mut context = Context {
            device: system.device(),
            metrics: self.metrics.clone(),
            ..Context::default()
        };
        if about.log_bytes > 0 {
            let now = system.now();
            let ago = now.boottime_ns.saturating_sub(about.at_boottime_ns);
            let report_ns = now.realtime_ns.saturating_sub(ago);
            let excerpt = system.log(LogRequest {
                pid: self.peer.pid,
                uid: self.peer.uid,
                report_ns,
                since_ns: report_ns.saturating_sub(LOG_NS),
                bytes: about.log_bytes,
            });
            match excerpt {
                Ok(log) => context.log = log,
                Err(e) => store.note(format!("report {} has no log: {e}", self.report)),
            }
        }
        context.limited_to(Level::of_strings(about.consent))
    }

    /// Writes the report. The memory may be anything, and may change all the time.
    ///
    /// # Errors
    /// If nothing was recorded, the memory cannot be read, or the store has no room: then there is no report.
    pub(super) fn run<'a>(
        &self,
        store: &'a mut Store,
        system: &dyn System,
    ) -> Result<&'a Entry, PublishError> {
        let mut entry = self.entry(system);
        entry.context = self.context(store, system).to_toml();
        let names = boot_names::for_process(store, &self.memory);
        store.publish(entry, |writer, entry| {
            let process = self.write_trace(writer, system, names)?;
            entry.version = process.app_version().unwrap_or(0);
            Ok(())
        })
    }

    fn write_trace(
        &self,
        writer: &mut ReportWriter<'_>,
        system: &dyn System,
        names: Option<BootNames>,
    ) -> Result<ProcessFacts, PublishError> {
        let failed = |e: &dyn std::fmt::Display| PublishError::Contents(e.to_string());
        let filter = match self.has_ended {
            true => RingFilter::All,
            false => RingFilter::Taken,
        };
        let mut reader =
            SharedReader::new(&*self.memory, filter, self.limits).map_err(|e| failed(&e))?;
        reader.set_boot_names(names);
        reader.set_process(self.peer.pid, self.peer.uid);
        let mut now = system.sample(reader.source());
        let too_early = now.as_ref().map(|now| reader.time_to_rate(now));
        if let Some(left) = too_early.filter(|left| !left.is_zero()) {
            // The process has lived for less than 20 ms. Only this thread waits, which writes reports.
            std::thread::sleep(left);
            now = system.sample(reader.source());
        }
        let ending = Ending {
            reason: self.about.reason.clone(),
            raised_by: self.about.tid,
            now,
            ended_boottime_ns: self.about.ended_boottime_ns,
        };
        reader
            .write(writer, &ending, self.about.consent)
            .map_err(|e| failed(&e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detectors_name_that_is_none_needs_consent() {
        let names = ["slow-message", "Alice's message", ""];
        let limited = names.map(|name| detector(name, Consent::Names));
        assert_eq!(limited, ["slow-message", REMOVED, ""]);
        assert_eq!(detector(names[1], Consent::Content), names[1]);
    }
}
