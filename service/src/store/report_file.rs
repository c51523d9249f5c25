// SPDX-License-Identifier: Apache-2.0
//! Writing a report: room is made before each part of it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use hindsight_trace_format::container::Writer;
use hindsight_trace_format::protocol::TriggerSeverity;

use crate::engine::Report;

use super::entry::MAX_ENTRY_BYTES;
use super::error::PublishError;
use super::{state, Entry, Incoming, Store};

/// Room is made for so many bytes at once, so that the reports are not gone through for each write.
const STEP: u64 = 256 << 10;

/// A trace that is being written into the store.
pub type ReportWriter<'a> = Writer<BufWriter<Growing<'a>>>;

/// A file that only grows as far as there is room.
pub struct Growing<'a> {
    store: &'a mut Store,
    file: &'a File,
    group: Report,
    uid: u32,
    severity: TriggerSeverity,
    at: u64,
    length: u64,
    /// Bytes of the files beside it.
    beside: u64,
    /// There is room for so many bytes.
    granted: u64,
    /// Why there was no room.
    refused: &'a mut Option<PublishError>,
}

impl Growing<'_> {
    fn grow(&mut self, end: u64) -> io::Result<()> {
        let wanted = end.next_multiple_of(STEP);
        let (granted, beside) = (self.granted, self.beside);
        let mut make = |to: u64| {
            self.store.remove_for(Some(Incoming {
                group: self.group,
                uid: self.uid,
                severity: self.severity,
                bytes: to + beside,
                more_bytes: to - granted,
            }))
        };
        // At the very end of the quota the last bytes count.
        let made = make(wanted)
            .map(|()| wanted)
            .or_else(|_| make(end).map(|()| end));
        match made {
            Ok(granted) => {
                self.granted = granted;
                Ok(())
            }
            Err(why) => {
                let text = why.to_string();
                *self.refused = Some(why);
                Err(io::Error::other(text))
            }
        }
    }
}

impl Write for Growing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = self.at + bytes.len() as u64;
        if end > self.granted {
            self.grow(end)?;
        }
        let written = self.file.write(bytes)?;
        self.at += written as u64;
        self.length = self.length.max(self.at);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Growing<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = self.file.seek(to)?;
        Ok(self.at)
    }
}

impl Store {
    /// Writes a report; `write` writes the trace, and may change the entry. Its number must be reserved, or can be now. Less
    /// severe or older reports are removed before each part that would not fit.
    ///
    /// # Errors
    /// If there is no room, the disk refuses, or `write` fails: then there is no report, and nothing of it is left.
    pub fn publish(
        &mut self,
        mut entry: Entry,
        write: impl FnOnce(&mut ReportWriter<'_>, &mut Entry) -> Result<(), PublishError>,
    ) -> Result<&Entry, PublishError> {
        let report = entry.report;
        if self.kept.contains_key(&report) || self.trace_path(report).exists() {
            return Err(PublishError::Exists(report));
        }
        let folder = self.folder.clone();
        self.reserve(report)
            .map_err(|e| PublishError::Disk("reserve a number in", folder, e))?;
        self.advance();
        let trace = self.folder.join(format!(".{report}.hindsight.tmp"));
        let small = self.folder.join(format!(".{report}.toml.tmp"));
        let result = self.write_both(&mut entry, &trace, &small, write);
        if result.is_err() {
            let _ = fs::remove_file(&trace);
            let _ = fs::remove_file(&small);
            let _ = fs::remove_file(self.context_path(report));
        }
        let bytes = result?;
        self.bytes.insert(report, bytes);
        self.save_age();
        Ok(self.kept.entry(report).or_insert(entry))
    }

    /// Writes and names all files, the trace last. Returns their length, bytes.
    fn write_both(
        &mut self,
        entry: &mut Entry,
        trace: &PathBuf,
        small: &PathBuf,
        write: impl FnOnce(&mut ReportWriter<'_>, &mut Entry) -> Result<(), PublishError>,
    ) -> Result<u64, PublishError> {
        let report = entry.report;
        entry.bytes = self.write_trace(entry, trace, write)?;
        entry.kept_since_s = self.clock.elapsed_s;
        entry.boottime_ns = entry.boottime_ns.min(i64::MAX as u64);
        let text = entry.to_toml();
        let failed = |what, path: &PathBuf| {
            let path = path.clone();
            move |e| PublishError::Disk(what, path, e)
        };
        state::write_new(small, text.as_bytes()).map_err(failed("write", small))?;
        let context_bytes = self.write_context(report, &std::mem::take(&mut entry.context));
        let entry_path = self.entry_path(report);
        fs::rename(small, &entry_path).map_err(failed("rename", small))?;
        if let Err(e) = fs::rename(trace, self.trace_path(report)) {
            let _ = fs::remove_file(&entry_path);
            return Err(failed("rename", trace)(e));
        }
        // The report is there; the next one syncs the folder, too.
        if let Err(e) = self.directory.sync_all() {
            self.complain("it cannot be synced", &e);
        }
        Ok(entry.bytes + text.len() as u64 + context_bytes)
    }

    /// Writes and names the file with the context, if there is any. A report whose context cannot be written has none. Returns its
    /// length, bytes.
    fn write_context(&mut self, report: Report, text: &str) -> u64 {
        if text.is_empty() {
            return 0;
        }
        let hidden = self.folder.join(format!(".{report}.context.tmp"));
        let written = state::write_new(&hidden, text.as_bytes());
        match written.and_then(|()| fs::rename(&hidden, self.context_path(report))) {
            Ok(()) => text.len() as u64,
            Err(e) => {
                let _ = fs::remove_file(&hidden);
                self.note(format!("report {report} has no context: {e}"));
                0
            }
        }
    }

    /// Writes and syncs the trace. Returns its length, bytes.
    fn write_trace(
        &mut self,
        entry: &mut Entry,
        path: &PathBuf,
        write: impl FnOnce(&mut ReportWriter<'_>, &mut Entry) -> Result<(), PublishError>,
    ) -> Result<u64, PublishError> {
        let failed = |what| move |e| PublishError::Disk(what, path.clone(), e);
        let mut options = OpenOptions::new();
        let options = options.write(true).create_new(true).mode(0o600);
        let file = options.open(path).map_err(failed("create"))?;
        let mut refused = None;
        let growing = Growing {
            group: entry.group(),
            uid: entry.uid,
            severity: entry.severity(),
            store: self,
            file: &file,
            at: 0,
            length: 0,
            beside: MAX_ENTRY_BYTES + entry.context.len() as u64,
            granted: 0,
            refused: &mut refused,
        };
        let result = Writer::new(BufWriter::new(growing))
            .map_err(failed("write"))
            .and_then(|mut writer| {
                write(&mut writer, entry)?;
                let out = writer.finish().map_err(failed("write"))?;
                let growing = out.into_inner();
                growing.map_err(|e| failed("write")(e.into_error()))
            })
            .map(|growing| growing.length);
        // The true reason, which writers only know as a failed write.
        let length = match refused {
            Some(why) => Err(why),
            None => result,
        }?;
        file.sync_all().map_err(failed("sync"))?;
        Ok(length)
    }
}
