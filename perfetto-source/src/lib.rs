// SPDX-License-Identifier: Apache-2.0
//! The data source `dev.hindsight` of Perfetto: a program beside hindsightd, so that a fault here does not end the service.
//!
//! It registers with traced by traced's own socket, and asks hindsightd for the rings of processes when a session is flushed,
//! stopped or cloned. While a session merely runs it waits in one call of `poll`, without a time limit.

pub mod config;
mod ffi;
pub mod hindsightd;
pub mod ipc;
pub mod messages;
pub mod packets;
pub mod proto;
pub mod run;
pub mod shared_buffer;
pub mod snapshot;

pub use ffi::hindsight_perfetto_main;

const HELP: &str = "\
hindsight-perfetto: the data source dev.hindsight of Perfetto

usage: hindsight-perfetto [--traced PATH] [--commands PATH]

  --traced PATH    traced's socket for producers (/dev/socket/traced_producer, or PERFETTO_PRODUCER_SOCK_NAME)
  --commands PATH  the socket of hindsightd for commands (/dev/socket/hindsightd_commands)
  --help           this text
";

/// Runs the program with these arguments, without its name. Returns its exit code.
pub fn main(arguments: impl Iterator<Item = std::ffi::OsString>) -> i32 {
    let mut sockets = run::default_sockets();
    let mut arguments = arguments;
    while let Some(option) = arguments.next() {
        let place = match option.to_str() {
            Some("--traced") => &mut sockets.traced,
            Some("--commands") => &mut sockets.hindsightd,
            Some("--help" | "-h") => {
                print!("{HELP}");
                return 0;
            }
            _ => {
                eprintln!("hindsight-perfetto: there is no option {option:?}; --help has all");
                return 1;
            }
        };
        let Some(path) = arguments.next() else {
            eprintln!("hindsight-perfetto: {option:?}: its path is missing");
            return 1;
        };
        *place = path.into();
    }
    match run::run(sockets) {
        Ok(()) => 0,
        Err(e) => {
            eprintln!("hindsight-perfetto: it cannot wait for anything any more: {e}");
            1
        }
    }
}
