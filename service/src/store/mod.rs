// SPDX-License-Identifier: Apache-2.0
//! The folder with the reports, and with what the service must remember.
//!
//! ```text
//! 12.hindsight     a trace
//! 12.toml          what is known about it
//! 12.context       the device, metrics and log around it; some have none
//! counter.state    numbers of reports that may have been used
//! age.state        how long the store has existed
//! limits.state     how many reports each user has made (the engine's)
//! names-64.state   names of the boot image's methods (`report/boot_names.rs`)
//! .….tmp           being written
//! ```
//!
//! A report exists if its `.hindsight` file does: that name is given to the complete and synced file last, and taken away first.

mod age;
mod entry;
mod error;
mod removal;
mod report_file;
mod retention;
mod scan;
mod state;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::engine::Report;
use crate::os::{own_uid, System};

use age::AgeClock;

pub use entry::Entry;
pub use error::{PublishError, StoreError};
pub use report_file::ReportWriter;
pub use retention::{plan, Disk, Incoming, Kept, NoRoom, Quota};
pub use state::{State, MAX_STATE_BYTES};

/// Numbers of reports that are reserved by one write.
pub const RESERVED_AT_ONCE: u64 = 1024;
const COUNTER: &str = "counter";
const AGE: &str = "age";

/// The folder. Only one thread uses it.
pub struct Store {
    folder: PathBuf,
    /// Its descriptor holds the lock.
    directory: File,
    quota: Quota,
    system: Arc<dyn System>,
    kept: BTreeMap<Report, Entry>,
    /// Bytes of each report's files.
    bytes: BTreeMap<Report, u64>,
    /// Bytes of each state.
    states: BTreeMap<String, u64>,
    clock: AgeClock,
    boot_id: String,
    /// Numbers below this one may be used.
    reserved: Report,
    /// Nobody has used this number, or a higher one.
    first: Report,
    is_new: bool,
    was_used_in_this_boot: bool,
    is_older: bool,
    log: Vec<String>,
}

impl Store {
    /// Opens the folder, which is made if need be, and removes what an interrupted service has left there. Then comes
    /// [`begin`](Self::begin).
    ///
    /// # Errors
    /// If it cannot be made or read, others may write to it, or another service uses it. A folder that cannot be written to is no error: there will be no
    /// reports, and [`take_log`](Self::take_log) says so.
    pub fn open(folder: &Path, quota: Quota, system: Arc<dyn System>) -> Result<Self, StoreError> {
        let failed = |e| StoreError::Folder(folder.to_owned(), e);
        let mut builder = fs::DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(folder);
        let directory = File::open(folder).map_err(|e| failed(made.err().unwrap_or(e)))?;
        let facts = directory.metadata().map_err(failed)?;
        let is_own = [0, own_uid()].contains(&facts.uid());
        if !is_own || facts.mode() & 0o022 != 0 {
            return Err(StoreError::Shared(folder.to_owned()));
        }
        // SAFETY: the descriptor is open.
        if unsafe { libc::flock(directory.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            return Err(StoreError::InUse(folder.to_owned()));
        }
        let mut store = Store {
            folder: folder.to_owned(),
            directory,
            quota,
            boot_id: system.boot_id(),
            system,
            kept: BTreeMap::new(),
            bytes: BTreeMap::new(),
            states: BTreeMap::new(),
            clock: AgeClock::default(),
            reserved: 0,
            first: 1,
            is_new: false,
            was_used_in_this_boot: false,
            is_older: false,
            log: Vec::new(),
        };
        store.scan().map_err(failed)?;
        store.is_new = store.kept.is_empty() && !store.states.contains_key(AGE);
        store.read_age();
        store.was_used_in_this_boot = store.clock.is_of(&store.boot_id);
        store.read_counter();
        Ok(store)
    }

    /// Writes down that the store is in use, and makes room. What must be there whenever the store
    /// [was used](Self::was_used) is saved before.
    pub fn begin(&mut self) {
        if let Err(e) = self.reserve(self.first) {
            self.complain("numbers of reports cannot be reserved", &e);
        }
        self.make_room();
    }

    /// Lines for the log since the last call.
    pub fn take_log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }

    /// Adds a line to the log.
    pub fn note(&mut self, line: String) {
        self.log.push(line);
    }

    /// The reports, oldest first.
    pub fn reports(&self) -> impl Iterator<Item = &Entry> {
        self.kept.values()
    }

    /// Bytes of all files in the folder.
    pub fn total_bytes(&self) -> u64 {
        self.bytes.values().sum::<u64>() + self.states.values().sum::<u64>()
    }

    /// The first number that was never used, also by services before this one.
    pub fn first_report(&self) -> Report {
        self.first
    }

    /// Numbers below this one are reserved: the next service does not use them.
    pub fn reserved(&self) -> Report {
        self.reserved
    }

    /// Makes sure that the next service uses higher numbers than this one.
    ///
    /// # Errors
    /// If that cannot be written down.
    pub fn reserve(&mut self, report: Report) -> io::Result<()> {
        if report < self.reserved {
            return Ok(());
        }
        let next = report.saturating_add(RESERVED_AT_ONCE);
        self.save_state(COUNTER, &format!("next = {next}\n"))?;
        self.reserved = next;
        Ok(())
    }

    /// The trace of a report, to be read only.
    ///
    /// # Errors
    /// If there is no such report, or it cannot be opened.
    pub fn open_report(&self, report: Report) -> io::Result<(File, &Entry)> {
        let entry = self.kept.get(&report);
        let entry = entry.ok_or(io::ErrorKind::NotFound)?;
        Ok((File::open(self.trace_path(report))?, entry))
    }

    /// The file with the context of a report; `None`: it has none. At most so many bytes are read.
    ///
    /// # Errors
    /// If there is no such report, or the file cannot be read.
    pub fn context(&self, report: Report, most: u64) -> io::Result<Option<String>> {
        if !self.kept.contains_key(&report) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut text = String::new();
        match File::open(self.context_path(report)) {
            Ok(file) => file
                .take(most)
                .read_to_string(&mut text)
                .map(|_| Some(text)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Removes a report.
    ///
    /// # Errors
    /// If there is no such report, or the disk refuses.
    pub fn remove(&mut self, report: Report) -> io::Result<()> {
        if !self.kept.contains_key(&report) {
            return Err(io::ErrorKind::NotFound.into());
        }
        for path in [
            self.trace_path(report),
            self.context_path(report),
            self.entry_path(report),
        ] {
            match fs::remove_file(path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        self.kept.remove(&report);
        self.bytes.remove(&report);
        Ok(())
    }

    /// What was saved under this name.
    pub fn load_state(&self, name: &str) -> State {
        state::load(&self.folder, name)
    }

    /// A service has used the folder before.
    pub fn was_used(&self) -> bool {
        !self.is_new
    }

    /// The service that used the folder last was an older one, which knew no signed policies. False if that is not known.
    pub fn knew_no_signatures(&self) -> bool {
        self.is_older
    }

    /// A service has used the folder since the device was started.
    pub fn was_used_in_this_boot(&self) -> bool {
        self.was_used_in_this_boot
    }

    /// Saves a text under this name; the file has the old or the new text at any moment, and reports make room for both.
    ///
    /// # Errors
    /// If it is longer than [`MAX_STATE_BYTES`], or cannot be written; the old text stays.
    pub fn save_state(&mut self, name: &str, text: &str) -> io::Result<()> {
        self.make_room_for(text.len().min(MAX_STATE_BYTES) as u64 + state::MAX_TRAILER_BYTES);
        let bytes = state::save(&self.folder, name, text)?;
        self.states.insert(name.to_owned(), bytes);
        Ok(())
    }

    /// Saves bytes under this name, as [`save_state`](Self::save_state) does with a text. They must tell by themselves whether they
    /// are what was saved. No report is removed for them.
    ///
    /// # Errors
    /// If the quota or the disk has no room for them beside the old ones, or they cannot be written; the old ones stay.
    pub fn save_bytes(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let new = bytes.len() as u64;
        let is_over = self.total_bytes().saturating_add(new) > self.quota.bytes;
        let free = self.system.free_bytes(&self.folder).ok();
        let least = self.quota.free_bytes.saturating_add(new);
        if is_over || free.is_some_and(|free| free < least) {
            let why = format!("the quota or the disk has no room for {new} bytes more; remove reports, or raise the quota");
            return Err(io::Error::other(why));
        }
        let bytes = state::save_bytes(&self.folder, name, bytes)?;
        self.states.insert(name.to_owned(), bytes);
        Ok(())
    }

    /// The bytes that were saved under this name, at most so many.
    ///
    /// # Errors
    /// If there are none, or they cannot be read.
    pub fn load_bytes(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        state::load_bytes(&self.folder, name, most)
    }

    /// Makes what was saved under this name unreadable, where it is better to know nothing than the old text.
    ///
    /// # Errors
    /// If not even that can be done.
    pub fn spoil_state(&mut self, name: &str) -> io::Result<()> {
        let mut options = File::options();
        options.write(true).truncate(true).create(true);
        options.open(state::path(&self.folder, name))?.sync_all()
    }

    /// Removes what was saved under this name.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn remove_state(&mut self, name: &str) -> io::Result<()> {
        match fs::remove_file(state::path(&self.folder, name)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        self.states.remove(name);
        self.directory.sync_all()
    }

    /// Removes reports that have to make room for so many bytes of a state. It is saved also if there is none: it says what must
    /// not be recorded or leave.
    fn make_room_for(&mut self, bytes: u64) {
        let states: u64 = self.states.values().sum();
        let disk = Disk {
            other_bytes: states.saturating_add(bytes),
            // No report is removed because the disk is full of something else: states have a few KiB, only a policy may have more.
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

    /// In how many seconds the next report is too old, by the clock now.
    pub fn next_expiry_s(&mut self) -> Option<u64> {
        self.advance();
        let since = self.kept.values().map(|entry| entry.kept_since_s).min()?;
        let at = since.saturating_add(self.quota.age_s);
        Some(at.saturating_sub(self.clock.elapsed_s))
    }

    fn trace_path(&self, report: Report) -> PathBuf {
        self.folder.join(format!("{report}.hindsight"))
    }

    fn entry_path(&self, report: Report) -> PathBuf {
        self.folder.join(format!("{report}.toml"))
    }

    fn context_path(&self, report: Report) -> PathBuf {
        self.folder.join(format!("{report}.context"))
    }

    /// Counts the time up to now.
    fn advance(&mut self) {
        let known = self.kept.values().map(|entry| entry.kept_since_s);
        let known = known.max().unwrap_or(0);
        let now = self.system.now();
        let limit = self.quota.age_s;
        self.clock.advance(&self.boot_id, now, limit, known);
    }

    fn save_age(&mut self) {
        let text = self.clock.to_toml();
        if let Err(e) = self.save_state(AGE, &text) {
            self.complain("its age cannot be written down", &e);
        }
    }

    fn read_age(&mut self) {
        let problem = match self.load_state(AGE) {
            State::Missing => return,
            State::Damaged(why) => why,
            State::Found(text) => match toml::from_str(&text) {
                Ok(clock) => {
                    self.clock = clock;
                    self.is_older = !self.clock.keeps_revision;
                    return;
                }
                Err(e) => e.to_string(),
            },
        };
        let what =
            "reports may be kept for longer than the age limit, because this file is damaged";
        self.log.push(format!("{what}: {problem}"));
    }

    /// Finds the first number that was never used.
    fn read_counter(&mut self) {
        let highest = self.kept.keys().last().map_or(0, |last| *last);
        let after = highest.saturating_add(1);
        let text = match self.load_state(COUNTER) {
            State::Found(text) => Ok(text),
            State::Missing if self.is_new => Ok("next = 1".to_owned()),
            State::Missing => Err("there is none".to_owned()),
            State::Damaged(why) => Err(why),
        };
        let read = text.and_then(|text| {
            let table: toml::Table = toml::from_str(&text).map_err(|e| e.to_string())?;
            let next = table.get("next").and_then(toml::Value::as_integer);
            let next = next.and_then(|next| u64::try_from(next).ok());
            next.ok_or_else(|| "it has no number".to_owned())
        });
        self.first = match read {
            Ok(next) => next.max(after),
            Err(why) => {
                // No service makes a report a second for years, so that a number of this size is new.
                let seconds = self.system.now().realtime_ns / 1_000_000_000;
                let first = after.saturating_add(seconds);
                let what = "the counter of reports is damaged";
                self.log
                    .push(format!("{what}, so that they go on from {first}: {why}"));
                first
            }
        };
    }

    fn disk(&self) -> Disk {
        Disk {
            other_bytes: self.states.values().sum(),
            free_bytes: self.system.free_bytes(&self.folder).ok(),
        }
    }

    /// Removes what a plan says.
    fn remove_for(&mut self, incoming: Option<Incoming>) -> Result<(), PublishError> {
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

    fn complain(&mut self, what: &str, e: &io::Error) {
        let folder = self.folder.display();
        let remedy = "make it writable, or free some space";
        self.log
            .push(format!("the folder {folder}: {what}: {e}; {remedy}"));
    }
}
