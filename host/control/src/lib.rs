// SPDX-License-Identifier: Apache-2.0
//! Control of a running process: the client of its control socket (`docs/configuration.md`), and rules that are in force
//! for a while ([`AddedRules`]).
//!
//! ```no_run
//! use hindsight_control::{Access, AddedRule, AddedRules, ControlSocket, FieldRule};
//!
//! let socket = ControlSocket::of_process(4711)?;
//! let rule = AddedRule::Field(FieldRule::new("com.example.Flag.done", Access::Both));
//! let mut added = AddedRules::put_into_force(&socket, &[rule])?;
//! let trace = socket.snapshot("the flag does not change")?;
//! added.restore()?;
//! println!("{}", trace.display());
//! # Ok::<(), hindsight_control::Error>(())
//! ```

mod device;
mod error;
mod process_report;
mod rules;
mod rules_file;
mod socket;
mod status;

pub use device::{adb_command, shell_word, Device};
pub use error::{DeviceError, Error};
pub use process_report::ProcessReport;
pub use rules::AddedRules;
pub use rules_file::{Access, AddedRule, BranchRule, FieldRule};
pub use socket::ControlSocket;
pub use status::{RuleState, RuleStatus, Status};
