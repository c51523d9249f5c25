// SPDX-License-Identifier: Apache-2.0
//! How long it takes until another policy, and the recording switch, are in force in all apps that run.

use std::fs::File;
use std::mem::{offset_of, size_of};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result};
use hindsight_lab::device::{Device, DeviceApp};
use hindsight_lab::Execution;
use hindsight_trace_format::shared::{Header, RingControl, RingState};

use super::status::{until, Status};

/// Apps that run, and how many of them work all the time.
const APPS: usize = 20;
const BUSY: usize = 2;
/// Each is a policy that ends recording, the one before it, and the switch, off and on.
const ROUNDS: usize = 5;

/// From the command to the last app, each time; s.
#[derive(Clone, Debug, Default)]
pub(super) struct AtOnce {
    /// Until no app recorded any more.
    pub(super) off_s: Vec<f64>,
    /// Until all apps recorded.
    pub(super) on_s: Vec<f64>,
}

/// The shared memory of an app.
struct Memory {
    file: File,
    /// Offset and length of the descriptions of rings, bytes.
    controls: (u64, usize),
}

impl Memory {
    fn of(pid: u32) -> Result<Memory> {
        let mut all = std::fs::read_dir(format!("/proc/{pid}/fd"))?.flatten();
        let is_memory = |entry: &std::fs::DirEntry| {
            let target = std::fs::read_link(entry.path()).unwrap_or_default();
            target.to_string_lossy().starts_with("/memfd:hindsight")
        };
        let found = all.find(is_memory).context("an app shares no memory")?;
        let file = File::open(found.path())?;
        let mut region = [0; 16];
        file.read_exact_at(&mut region, offset_of!(Header, controls) as u64)?;
        let word = |at: usize| region[at..].first_chunk().map(|b| u64::from_ne_bytes(*b));
        let (offset, bytes) = word(0).zip(word(8)).context("no region")?;
        let controls = (offset, bytes as usize);
        Ok(Memory { file, controls })
    }

    /// Whether any thread records: the process's own memory says so, whatever the service believes.
    fn records(&self) -> Result<bool> {
        let (offset, bytes) = self.controls;
        let mut controls = vec![0; bytes];
        self.file.read_exact_at(&mut controls, offset)?;
        let recording = (RingState::Recording as u32).to_ne_bytes();
        let state = offset_of!(RingControl, state);
        let mut all = controls.chunks_exact(size_of::<RingControl>());
        Ok(all.any(|control| control[state..].starts_with(&recording)))
    }
}

/// Measures apps of its own, and a service of its own, in a folder.
pub(super) fn run(device: &Device, policy: &Path, configuration: &str) -> Result<AtOnce> {
    let service = device.start_service(Some(policy))?;
    let mut apps: Vec<DeviceApp> = Vec::new();
    for _ in 0..APPS {
        apps.push(device.start_app(Execution::Aot, configuration)?);
    }
    for app in apps.iter_mut().take(BUSY) {
        app.tell("busy")?;
    }
    until(&service, "all apps are known to the service", || {
        let status = Status::of(&service)?;
        let mut all = apps.iter();
        Ok(all.all(|app| status.connected(app.pid()).is_some()))
    })?;
    let memories = apps.iter().map(|app| Memory::of(app.pid()));
    let memories = memories.collect::<Result<Vec<Memory>>>()?;
    let all_record = |wanted: bool| -> Result<bool> {
        for memory in &memories {
            if memory.records()? != wanted {
                return Ok(false);
            }
        }
        Ok(true)
    };
    until(&service, "all apps record", || all_record(true))?;
    let nothing = policy.with_extension("nothing.toml");
    let text = std::fs::read_to_string(policy)?;
    std::fs::write(&nothing, text.replacen('\n', "\nenabled = false\n", 1))?;
    let load = format!("policy {}", nothing.display());
    let mut seen = AtOnce::default();
    for _ in 0..ROUNDS {
        for (command, is_on) in [
            (load.as_str(), false),
            ("policy default", true),
            ("switch off", false),
            ("switch on", true),
        ] {
            let begin = Instant::now();
            service.ask(command)?;
            let what = format!("'{command}' is in force in all apps");
            until(&service, &what, || all_record(is_on))?;
            let times = if is_on {
                &mut seen.on_s
            } else {
                &mut seen.off_s
            };
            times.push(begin.elapsed().as_secs_f64());
        }
    }
    Ok(seen)
}
