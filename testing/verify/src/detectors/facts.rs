// SPDX-License-Identifier: Apache-2.0
//! A folder in which the service finds the facts of the system that a case wants.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// `/proc` and `/sys` of a case.
pub(super) struct FactsFolder {
    path: PathBuf,
    /// Share of the time in which some work waits for memory, percent.
    stalled_percent: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    writer: Option<JoinHandle<()>>,
}

impl FactsFolder {
    /// Makes the folder: cool, and with enough memory.
    pub(super) fn new(path: &Path) -> Result<Self> {
        let zone = path.join("sys/class/thermal/thermal_zone0");
        let pressure = path.join("proc/pressure");
        for folder in [&zone, &pressure] {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        write(&zone.join("temp"), "30000\n")?;
        let mut facts = FactsFolder {
            path: path.to_owned(),
            stalled_percent: Arc::default(),
            ends: Arc::default(),
            writer: None,
        };
        facts.heat(35)?;
        let file = pressure.join("memory");
        write(&file, &stalls(0))?;
        let (percent, ends) = (Arc::clone(&facts.stalled_percent), Arc::clone(&facts.ends));
        facts.writer = Some(std::thread::spawn(move || stall(&file, &percent, &ends)));
        Ok(facts)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The hottest zone has so many degrees Celsius from now on.
    pub(super) fn heat(&self, celsius: u32) -> Result<()> {
        let zone = self.path.join("sys/class/thermal/thermal_zone1");
        std::fs::create_dir_all(&zone)
            .with_context(|| format!("cannot make {}", zone.display()))?;
        write(&zone.join("temp"), &format!("{celsius}000\n"))
    }

    /// From now on some work waits for memory during this share of the time, percent.
    pub(super) fn stall(&self, percent: u64) {
        self.stalled_percent.store(percent, Ordering::Relaxed);
    }
}

impl Drop for FactsFolder {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// Counts as the kernel does: the total grows by a share of the time that passes.
fn stall(file: &Path, percent: &AtomicU64, ends: &AtomicBool) {
    let mut total_us = 0.0;
    let mut last = Instant::now();
    while !ends.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(10));
        let passed = last.elapsed();
        last += passed;
        total_us += passed.as_secs_f64() * 1e6 * percent.load(Ordering::Relaxed) as f64 / 100.0;
        // The case misses its detector if the file cannot be written, and says so.
        let _ = write(file, &stalls(total_us as u64));
    }
}

fn stalls(total_us: u64) -> String {
    format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={total_us}\n")
}

/// Nobody sees half of it.
fn write(path: &Path, text: &str) -> Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, text)
        .and_then(|()| std::fs::rename(&new, path))
        .with_context(|| format!("cannot write {}", path.display()))
}
