// SPDX-License-Identifier: Apache-2.0
//! The properties of the measured machine that matter for comparing numbers.

use std::fs;

use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    cpu: String,
    cpus: usize,
    kernel: String,
    arch: &'static str,
    /// Whether it runs under a hypervisor, where reading the timer may cost more.
    virtual_machine: bool,
    /// Load average of the last minute when the measurement ended.
    load: String,
}

impl Machine {
    pub(crate) fn current() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            cpuinfo
                .lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(key, _)| key.trim() == name)
                .map(|(_, value)| value.trim().to_owned())
                .unwrap_or_default()
        };
        let first_word = |path: &str| {
            let text = fs::read_to_string(path).unwrap_or_default();
            text.split_whitespace()
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        Machine {
            cpu: field("model name"),
            cpus: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: first_word("/proc/sys/kernel/osrelease"),
            arch: std::env::consts::ARCH,
            virtual_machine: field("flags").split(' ').any(|flag| flag == "hypervisor"),
            load: first_word("/proc/loadavg"),
        }
    }
}
