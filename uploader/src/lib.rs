// SPDX-License-Identifier: Apache-2.0
//! Sends to a collector what users agreed to, while nobody needs the device. The program has no access to reports: hindsightd
//! hands it one item after the other by descriptor, over a socket that serves nothing else. docs/upload.md has the protocol.

mod backoff;
mod conditions;
mod error;
mod ffi;
mod http;
mod item;
mod options;
mod send;
mod tls;

use std::thread::sleep;
use std::time::Duration;

pub use backoff::Backoff;
pub use conditions::Conditions;
pub use error::SendError;
pub use ffi::hindsight_upload_main;
pub use http::{parse_head, Head, MAX_HEAD_BYTES};
pub use item::{Item, Service};
pub use options::{parse, Options, HELP};
pub use send::{send, Sent};
pub use tls::{client, Collector};

/// Runs the program with these arguments, without its name. Returns its exit code.
pub fn main(arguments: impl Iterator<Item = std::ffi::OsString>) -> i32 {
    match start(arguments) {
        Ok(()) => 0,
        Err(message) => {
            eprintln!("hindsight-upload: {message}");
            1
        }
    }
}

fn start(arguments: impl Iterator<Item = std::ffi::OsString>) -> Result<(), String> {
    let arguments = arguments.map(|a| a.to_string_lossy().into_owned());
    let Some(options) = parse(arguments)? else {
        print!("{HELP}");
        return Ok(());
    };
    let collector = client(&options.ca, &options.host, options.port, options.deadline)?;
    if !options.once {
        run(&options, &collector);
    }
    run_once(&options, &collector)
        .map(|_| ())
        .map_err(|e| e.to_string())
}

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// There is nothing more to send now.
    Nothing,
    /// The device is in use, on battery, or on a metered network.
    Conditions,
    /// What was being sent may not leave any more. The next run asks for other items.
    Withdrawn,
}

/// Sends all that there is. Fails at the first problem: the next run goes on where this one ended.
///
/// # Errors
/// If the service or the collector cannot be reached, or does not keep to the protocol.
pub fn run_once(options: &Options, collector: &Collector) -> Result<Ended, SendError> {
    let service = Service::new(&options.service);
    loop {
        if !options.conditions.are_met() {
            return Ok(Ended::Conditions);
        }
        let Some(item) = service.next()? else {
            return Ok(Ended::Nothing);
        };
        match send(&item, &service, collector, &options.conditions)? {
            Sent::All => service.done(&item)?,
            Sent::Conditions => return Ok(Ended::Conditions),
            Sent::Withdrawn => return Ok(Ended::Withdrawn),
        }
    }
}

/// Waits for a permission of hindsightd that is newer than `used`, and sends all that there is. Then the permission is used.
fn run_when_allowed(
    options: &Options,
    collector: &Collector,
    used: &mut u64,
) -> Result<(), SendError> {
    let since = Service::new(&options.service).wait(*used)?;
    run_once(options, collector)?;
    *used = since;
    Ok(())
}

/// Sends for ever. With a file of conditions it looks at them from time to time; without one it sleeps until hindsightd allows
/// uploads. After each failure in a row it waits longer.
pub fn run(options: &Options, collector: &Collector) -> ! {
    let mut backoff = Backoff::new(options.wait);
    let mut used = 0;
    loop {
        let (result, wait) = match options.conditions.are_of_the_service() {
            true => {
                let result = run_when_allowed(options, collector, &mut used);
                (result, Duration::ZERO)
            }
            false => (run_once(options, collector).map(|_| ()), options.wait),
        };
        let wait = match result {
            Ok(()) => {
                backoff.succeeded();
                wait
            }
            Err(e) => {
                let wait = backoff.failed(random());
                eprintln!(
                    "hindsight-upload: {e}; next attempt in {} s",
                    wait.as_secs()
                );
                wait
            }
        };
        sleep(wait);
    }
}

/// A number that differs from device to device.
fn random() -> u32 {
    let mut bytes = [0; 4];
    // SAFETY: the buffer has this length. A failure leaves zeros, which only make devices wait equally long.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    u32::from_le_bytes(bytes)
}
