// SPDX-License-Identifier: Apache-2.0
//! Removes reports that are too old, or in the way of something that is to be saved.

use super::{plan, Disk, Incoming, Kept, PublishError, Store};

impl Store {
    /// Removes reports that have to make room for so many bytes of a state. It is saved also if there is none: it says what must
    /// not be recorded or leave.
    pub(super) fn make_room_for(&mut self, bytes: u64) {
        let states: u64 = self.states.values().sum();
        let disk = Disk {
            other_bytes: states.saturating_add(bytes),
            // A few KiB, but for a policy: no report goes because the disk is full of something else.
            free_bytes: None,
        };
        if let Err(e) = self.remove_planned(None, disk) {
            self.log.push(e.to_string());
        }
    }

    /// Removes what is too old or over the quota, and writes down how old the store is.
    pub fn make_room(&mut self) {
        self.advance();
        // Without an incoming report there is always a plan.
        if let Err(e) = self.remove_for(None) {
            self.log.push(e.to_string());
        }
        self.save_age();
    }

    fn disk(&self) -> Disk {
        Disk {
            other_bytes: self.states.values().sum(),
            free_bytes: self.system.free_bytes(&self.folder).ok(),
        }
    }

    /// Removes what a plan says.
    pub(super) fn remove_for(&mut self, incoming: Option<Incoming>) -> Result<(), PublishError> {
        let disk = self.disk();
        self.remove_planned(incoming, disk)
    }

    fn remove_planned(
        &mut self,
        incoming: Option<Incoming>,
        disk: Disk,
    ) -> Result<(), PublishError> {
        let kept: Vec<Kept> = (self.kept.iter())
            .map(|(report, entry)| Kept {
                report: *report,
                group: entry.group(),
                uid: entry.uid,
                severity: entry.severity(),
                bytes: self.bytes.get(report).map_or(0, |bytes| *bytes),
                age_s: self.clock.elapsed_s.saturating_sub(entry.kept_since_s),
            })
            .collect();
        for report in plan(&kept, incoming, &self.quota, disk)? {
            let path = self.trace_path(report);
            self.remove(report)
                .map_err(|e| PublishError::Disk("remove", path, e))?;
            let why = "too old, or over the quota";
            self.log.push(format!("report {report} removed: {why}"));
        }
        Ok(())
    }
}
