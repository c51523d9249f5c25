// SPDX-License-Identifier: Apache-2.0
//! A disk of its own for the reports: full, and not writable. The service goes on, and makes reports again afterwards.

use std::ffi::CString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hindsight_lab::device::{Device, Service};
use hindsight_lab::Execution;

use super::sampler::folder_bytes;
use super::status::{list, log_of, until, Status};

const DISK_MIB: u64 = 4;
/// The most that the store may take, MiB.
const QUOTA_MIB: u64 = 1;
/// The most reports.
const MOST_REPORTS: u64 = 3;
/// Killed apps: more than there may be reports.
const KILLS: u64 = 6;

/// What was seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Disks {
    /// Bytes of the store after each report, at most.
    pub(super) most_bytes: u64,
    /// Reports that the store holds when all were written.
    pub(super) kept: u64,
    pub(super) kills: u64,
    pub(super) reports: u64,
    pub(super) problems: Vec<String>,
}

impl Disks {
    /// The most that the store may have, bytes.
    pub(super) fn quota() -> u64 {
        QUOTA_MIB << 20
    }
}

/// A file system in memory.
struct Disk(PathBuf);

impl Disk {
    fn mount(folder: &Path, flags: libc::c_ulong) -> std::io::Result<()> {
        let path = CString::new(folder.as_os_str().as_encoded_bytes())?;
        let options = CString::new(format!("size={DISK_MIB}m,mode=0700"))?;
        // SAFETY: all texts end with 0.
        let mounted = unsafe {
            let tmpfs = c"tmpfs".as_ptr();
            libc::mount(tmpfs, path.as_ptr(), tmpfs, flags, options.as_ptr().cast())
        };
        match mounted {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Ok(path) = CString::new(self.0.as_os_str().as_encoded_bytes()) {
            // SAFETY: the text ends with 0.
            unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
        }
    }
}

/// `Err` in the result: this machine does not let us.
pub(super) fn run(device: &Device, policy: &Path) -> Result<Result<Disks, String>> {
    let store = device.store();
    std::fs::create_dir_all(&store)?;
    if let Err(e) = Disk::mount(&store, 0) {
        return Ok(Err(format!("a file system for the reports: {e}")));
    }
    let disk = Disk(store);
    let (bytes, reports) = (QUOTA_MIB.to_string(), MOST_REPORTS.to_string());
    let device = device
        .clone()
        .with_options(["--free-mib", "0", "--keep-mib", &bytes])
        .with_options(["--keep-reports", &reports]);
    let mut check = Check {
        service: device.start_service(Some(policy))?,
        device: &device,
        disks: Disks::default(),
    };
    check.quota()?;
    check.full(&disk.0)?;
    check.read_only(&disk.0)?;
    let disks = check.disks;
    Ok(Ok(disks))
}

struct Check<'a> {
    // Ends before the disk is unmounted.
    service: Service,
    device: &'a Device,
    disks: Disks,
}

impl Check<'_> {
    /// Kills an app that has recorded. Returns its process when the service has done what it does.
    fn kill(&mut self) -> Result<u32> {
        let configuration = "trace=main,events=all,ring=20,rewind=off";
        let mut app = self.device.start_app(Execution::Aot, configuration)?;
        let pid = app.pid();
        app.ask("foreground")?;
        until(&self.service, "an app has a ring", || {
            let status = Status::of(&self.service)?;
            Ok(status.connected(pid).is_some_and(|p| p.rings_granted != 0))
        })?;
        app.ask("fill 100000")?;
        app.kill();
        self.disks.kills += 1;
        until(&self.service, "the service is done with an app", || {
            let status = Status::of(&self.service)?;
            Ok(!status.engine.processes.iter().any(|p| p.pid == pid))
        })?;
        Ok(pid)
    }

    fn has_report(&self, pid: u32) -> Result<bool> {
        Ok(list(&self.service)?.iter().any(|report| report.pid == pid))
    }

    fn expect_report(&mut self, pid: u32, when: &str) -> Result<()> {
        match self.has_report(pid)? {
            true => self.disks.reports += 1,
            false => {
                let log = log_of(&self.service, pid);
                let what = format!("no report of process {pid} {when}: {log}");
                self.disks.problems.push(what);
            }
        }
        Ok(())
    }

    /// More reports than there may be bytes: the oldest ones go.
    fn quota(&mut self) -> Result<()> {
        let mut largest = 0;
        for _ in 0..KILLS {
            let pid = self.kill()?;
            self.expect_report(pid, "within the quota")?;
            let bytes = folder_bytes(&self.device.store());
            self.disks.most_bytes = self.disks.most_bytes.max(bytes);
            for report in list(&self.service)? {
                let file = format!("{}.hindsight", report.report);
                largest = largest.max(self.device.store().join(file).metadata()?.len());
            }
        }
        self.disks.kept = list(&self.service)?.len() as u64;
        let bytes = folder_bytes(&self.device.store());
        // A further one would have found no room.
        let is_full = self.disks.kept == MOST_REPORTS || bytes + largest > Disks::quota();
        if self.disks.kept > MOST_REPORTS || !is_full {
            let what = format!(
                "{} reports of at most {largest} bytes where {MOST_REPORTS} of together {} may be",
                self.disks.kept,
                Disks::quota()
            );
            self.disks.problems.push(what);
        }
        Ok(())
    }

    /// Others have taken all of the disk.
    fn full(&mut self, disk: &Path) -> Result<()> {
        for report in list(&self.service)? {
            self.service.ask(&format!("remove {}", report.report))?;
        }
        let others = disk.join("others");
        let mut file = std::fs::File::create(&others)?;
        let block = vec![1; 64 << 10];
        while std::io::Write::write_all(&mut file, &block).is_ok() {}
        drop(file);
        let pid = self.kill()?;
        if self.has_report(pid)? {
            let what = "a report on a full disk: the check sees nothing";
            self.disks.problems.push(what.to_owned());
        }
        std::fs::remove_file(&others)?;
        let pid = self.kill()?;
        self.expect_report(pid, "after the disk was full")
    }

    /// Nothing can be written; also the service is started again then.
    fn read_only(&mut self, disk: &Path) -> Result<()> {
        let remount = libc::MS_REMOUNT;
        Disk::mount(disk, remount | libc::MS_RDONLY).context("cannot make a disk read-only")?;
        let pid = self.kill()?;
        if self.has_report(pid)? {
            let what = "a report on a read-only disk: the check sees nothing";
            self.disks.problems.push(what.to_owned());
        }
        Disk::mount(disk, remount).context("cannot make a disk writable")?;
        let pid = self.kill()?;
        self.expect_report(pid, "after the disk was read-only")
    }
}
