// SPDX-License-Identifier: Apache-2.0
//! What can go wrong, with its remedy.

use std::io;
use std::path::PathBuf;

/// Why a process cannot be controlled. The texts are for users.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No process has this id.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// The process's environment cannot be read.
    #[error("the environment of process {pid} cannot be read ({error}): run this command as the process's user, or name the socket instead of the process")]
    NoEnvironment {
        /// The process.
        pid: u32,
        /// Why.
        error: io::Error,
    },
    /// The process was started without a configuration.
    #[error("process {0} is not traced: it was started without HINDSIGHT in its environment")]
    NotConfigured(u32),
    /// The configuration has no control socket.
    #[error("process {pid} has no control socket: its configuration is HINDSIGHT={configuration}; add socket=PATH, and start it again")]
    NoSocket {
        /// The process.
        pid: u32,
        /// Its configuration.
        configuration: String,
    },
    /// Nothing answers at the socket.
    #[error("{}: no process listens there ({error})", path.display())]
    NoAnswer {
        /// The socket.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Another process has the socket.
    #[error("{} is the control socket of process {owner}, not of {pid}: the first process of a configuration keeps the socket; give process {pid} a socket of its own", path.display())]
    OtherProcess {
        /// The socket.
        path: PathBuf,
        /// The process that was asked for.
        pid: u32,
        /// The process that has it.
        owner: u32,
    },
    /// The process refused a command.
    #[error("the process answers: {0}")]
    Refused(String),
    /// The process sent something else than an answer.
    #[error("the process sent no valid answer to '{command}': {answer}")]
    BadAnswer {
        /// The command.
        command: String,
        /// What came.
        answer: String,
    },
    /// Tracing has switched itself off.
    #[error("tracing of this process is off after several starts that failed; docs/configuration.md, \"Starts that fail\", says how to switch it on again")]
    SwitchedOff,
    /// The process does not record the events of rules.
    #[error("the process does not record the events of the category rules: switch them on by the socket's command 'events {wanted}', or start the process with events={wanted}")]
    NoRules {
        /// The categories that it records, and `rules`.
        wanted: String,
    },
    /// The rules in force are from a file that cannot be read again.
    #[error("{}: {error}; the rules that are in force are from this file, and could not be restored: end them first, by the socket's command 'rules off'", path.display())]
    RulesInForce {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A rule cannot be followed.
    #[error("{0}")]
    Failed(String),
    /// Somebody else changed the rules meanwhile.
    #[error("the rules before were not restored: another client put {} into force meanwhile", file.as_deref().unwrap_or("none"))]
    ChangedMeanwhile {
        /// The file of the rules that are in force now.
        file: Option<String>,
    },
    /// A file of this command's own.
    #[error("cannot write the rules: {0}")]
    File(io::Error),
}

/// Why a command to the system service has no result. The texts are for users.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The program adb does not run.
    #[error("adb cannot be run ({0}): install Android's platform-tools and put adb on the PATH, or name a lab device's folder by --lab")]
    NoAdb(io::Error),
    /// adb has no device, or several.
    #[error("adb: {0}")]
    Adb(String),
    /// A text is longer than adb's command line may be.
    #[error("{bytes} bytes are more than adb can hand to a command ({most} with quotes): 'adb push' the file to /data/local/tmp, and in 'adb shell' say hindsightd --command {command} < /data/local/tmp/FILE")]
    TooLong {
        /// Its length in the command line.
        bytes: usize,
        /// The most.
        most: usize,
        /// The command.
        command: String,
    },
    /// Nothing answers.
    #[error("{place}: no answer of hindsightd: {error}")]
    NoAnswer {
        /// Where.
        place: String,
        /// Why.
        error: io::Error,
    },
    /// There is no service at a socket of this machine.
    #[error("{}: no answer of hindsightd: {error}; 'cargo xtask lab device --folder FOLDER' runs one, whose folder --lab names; without --lab, the device behind adb is asked", path.display())]
    NoLab {
        /// The socket.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Something else answers.
    #[error("{place} has no hindsightd: '{answer}'; is the ROM built with Hindsight, and persist.hindsight.service 1?")]
    NoService {
        /// Where.
        place: String,
        /// What came.
        answer: String,
    },
    /// The service refused a command.
    #[error("{0}")]
    Refused(String),
    /// The answer has another form: the service is of another version.
    #[error("{place}: the answer '{answer}' is not understood: this program and hindsightd are of different versions; use the program of the ROM's checkout. Reports that are written stay on the device: 'hindsight device reports'")]
    OtherVersion {
        /// Where.
        place: String,
        /// A line of it.
        answer: String,
    },
    /// A report came only in part.
    #[error("report {report} was cut: {copied} of {wanted} bytes came; try again")]
    Cut {
        /// The report.
        report: u64,
        /// Bytes that came.
        copied: u64,
        /// Its length, bytes.
        wanted: u64,
    },
}
