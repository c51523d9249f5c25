// SPDX-License-Identifier: Apache-2.0
//! The program of the guest of `cargo xtask lab vm` that stands for what is around hindsightd on a phone.
//!
//! | arguments | what it does |
//! |---|---|
//! | `init RC CONTEXTS boot` | the folders that the init script makes at boot |
//! | `init RC CONTEXTS start SERVICE [ARGUMENT…]` | makes the service's sockets and becomes the service |
//! | `app NAME [behind\|grows]` | joins as a traced process, and waits; one that the user does not see; one that takes all memory |
//! | `connect` | connects, and says nothing |
//! | `ask LINE` | gives hindsightd a command, and prints the answer |
//! | `manage-binder` | becomes binder's context manager for a moment |
//! | `clocks` | a line with the clocks, ns |
//! | `stat PATH…` | mode, owner and SELinux label of each file |

mod app;
mod ask;
mod binder;
mod clocks;
mod init;
mod label;
mod rc;

use anyhow::{bail, Context as _, Result};
use app::Behaviour;
use std::path::Path;
use std::process::ExitCode;

fn run(arguments: &[&str]) -> Result<()> {
    match arguments {
        ["init", rc, contexts, "boot"] => init::boot(Path::new(rc), Path::new(contexts)),
        ["init", rc, contexts, "start", service, more @ ..] => {
            init::start(Path::new(rc), Path::new(contexts), service, more)
        }
        ["app", name] => app::join(name, Behaviour::Seen),
        ["app", name, "behind"] => app::join(name, Behaviour::Behind),
        ["app", name, "grows"] => app::join(name, Behaviour::Grows),
        ["connect"] => app::connect(),
        ["ask", line] => ask::ask(line),
        ["manage-binder"] => binder::manage(),
        ["clocks"] => clocks::print(),
        ["stat", paths @ ..] => paths.iter().try_for_each(|path| label::print(path)),
        _ => bail!("the arguments are not those of the table in main.rs: {arguments:?}"),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let command = arguments.first().copied().unwrap_or_default();
    match run(&arguments).with_context(|| format!("vm-guest {command}")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
