// SPDX-License-Identifier: Apache-2.0
//! Checks made before a build: packages and disk space.

use super::manifest::required_packages;
use crate::error::{Error, Result};
use crate::util::run;
use std::collections::HashSet;
use std::path::Path;
use std::process::Command;

/// Free space that a first build of one variant needs, in MiB: sources, objects, boot images,
/// the compiler cache and the temporary copy of a source tree while it is unpacked.
const NEEDED_MIB: u64 = 6 * 1024;

/// Free space that a build needs when sources and outputs exist already, in MiB.
const NEEDED_AGAIN_MIB: u64 = 512;

/// Fails if a package of `packages.txt` isn't installed.
pub(crate) fn packages(data: &Path) -> Result<()> {
    let mut command = Command::new("dpkg-query");
    command.args(["-W", "-f", "${db:Status-Status} ${Package} ${Provides}\n"]);
    let listing = run(command, "listing the installed packages")?;
    let installed = installed(&listing);
    let missing: Vec<String> = required_packages(data)?
        .into_iter()
        .filter(|names| !names.iter().any(|name| installed.contains(name.as_str())))
        .map(|mut names| names.swap_remove(0))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let sudo = if rustix::process::geteuid().is_root() {
        ""
    } else {
        "sudo "
    };
    Err(Error::MissingPackages {
        command: format!("{sudo}apt-get install {}", missing.join(" ")),
    })
}

fn installed(listing: &str) -> HashSet<&str> {
    let mut names = HashSet::new();
    for line in listing.lines() {
        let Some(rest) = line.strip_prefix("installed ") else {
            continue;
        };
        let (package, provides) = rest.split_once(' ').unwrap_or((rest, ""));
        names.insert(package);
        // "name (= version), name"
        for provided in provides.split(',') {
            if let Some(name) = provided.split_whitespace().next() {
                names.insert(name);
            }
        }
    }
    names
}

/// Fails if the disk has too little free space for the build.
pub(crate) fn disk_space(dir: &Path, first: bool) -> Result<()> {
    let stat = rustix::fs::statvfs(dir).map_err(|error| Error::Io {
        what: "ask for the free space of",
        path: dir.to_owned(),
        source: error.into(),
    })?;
    let free_mib = stat.f_bavail.saturating_mul(stat.f_frsize) >> 20;
    let needed_mib = if first { NEEDED_MIB } else { NEEDED_AGAIN_MIB };
    if free_mib < needed_mib {
        return Err(Error::NoSpace {
            path: dir.to_owned(),
            free_mib,
            needed_mib,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installed_packages_count_with_what_they_provide() {
        let listing =
            "installed a \nconfig-files gone \ninstalled jdk java-sdk (= 17), java17-sdk\n";
        let names = installed(listing);
        for name in ["a", "jdk", "java-sdk", "java17-sdk"] {
            assert!(names.contains(name), "{name}");
        }
        assert!(!names.contains("gone"));
    }

    #[test]
    fn a_missing_package_leads_to_the_command_that_installs_it() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(
            dir.path().join("packages.txt"),
            "dpkg # is always there\nno-such-package-x | no-such-package-y\n",
        )
        .unwrap();
        let message = packages(dir.path()).unwrap_err().to_string();
        assert!(
            message.ends_with("apt-get install no-such-package-x"),
            "{message}"
        );
    }
}
