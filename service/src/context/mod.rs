// SPDX-License-Identifier: Apache-2.0
//! What is known around a report beside its trace: the device, metrics of the last minutes, and lines of the process's log.
//!
//! Each part has the level of consent that it needs. What the level does not allow is neither kept nor sent: [`Context::limited_to`]
//! is applied when the report is written, and again when something of it leaves.

mod device;
mod log;
mod metrics;
mod text;

use std::fmt::Write as _;

use crate::policy::Level;

pub use device::{DeviceFacts, Fact};
pub(crate) use log::Collector;
pub use log::{LineError, LogExcerpt, LogLine, LogRequest, MAX_LOG_BYTES};
pub use metrics::{Metrics, Sample};

/// Longest file, bytes. The log is the largest part: a line takes at most twice its bytes in quotes.
pub const MAX_CONTEXT_BYTES: u64 = 512 << 10;
/// Version of the file.
const VERSION: u32 = 1;

/// What is known around a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Context {
    /// The device.
    pub device: DeviceFacts,
    /// Metrics of the last minutes.
    pub metrics: Metrics,
    /// The newest lines of the process's log.
    pub log: LogExcerpt,
}

impl Context {
    /// Without all that needs more consent.
    #[must_use]
    pub fn limited_to(self, level: Level) -> Self {
        if level == Level::None {
            return Context::default();
        }
        Context {
            device: self.device.limited_to(level),
            metrics: self.metrics,
            log: match level >= LogExcerpt::LEVEL {
                true => self.log,
                false => LogExcerpt::default(),
            },
        }
    }

    /// The file beside a report: TOML.
    pub fn to_toml(&self) -> String {
        let mut text = format!("version = {VERSION}\n");
        for part in [
            self.device.to_toml(),
            self.metrics.to_toml(),
            self.log.to_toml(),
        ] {
            let _ = write!(text, "{part}");
        }
        text
    }

    /// From the text of the file. Keys that are not known are skipped.
    ///
    /// # Errors
    /// If it is no such file: why.
    pub fn from_toml(text: &str) -> Result<Self, String> {
        let file: text::File = toml::from_str(text).map_err(|e| e.message().to_owned())?;
        if file.version != VERSION {
            return Err(format!(
                "it has version {}, and this service reads version {VERSION}",
                file.version
            ));
        }
        Ok(Context {
            device: DeviceFacts::from_names(file.device),
            metrics: Metrics::from_rows(file.metrics.names, file.metrics.samples),
            log: LogExcerpt {
                lines: file.log.lines,
                left_out: file.log.left_out,
            },
        })
    }
}

#[cfg(test)]
mod tests;
