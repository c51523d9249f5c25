// SPDX-License-Identifier: Apache-2.0
//! Downloads from Debian's archive through apt, with its own lists and caches.
//!
//! The system's apt configuration says which mirror to use and how to reach it. The system's own state does not change,
//! and no root rights are needed.

use crate::error::{Error, IoContext, Result};
use crate::util::{create_dir, run, write_atomic};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A private apt: its lists and caches are in a folder of the lab.
pub(crate) struct Apt {
    dir: PathBuf,
    /// Debian's architectures; the system's own if empty.
    architectures: Vec<String>,
}

/// The address of the archive, and the keyring that verifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mirror {
    uri: String,
    signed_by: Option<String>,
}

/// Suites that identify a mirror of the Debian archive proper; such a mirror also has the other suites.
const SUITES: [&str; 8] = [
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "oldstable",
    "stable",
    "testing",
    "sid",
];

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

impl Apt {
    /// Prepares the private apt for these suites.
    pub(crate) fn new(dir: &Path, suites: &[String]) -> Result<Apt> {
        Apt::prepare(dir, suites, &["deb", "deb-src"], &[])
    }

    /// Prepares the private apt for binary packages of these architectures, this machine's first.
    pub(crate) fn for_architectures(
        dir: &Path,
        suites: &[String],
        architectures: &[&str],
    ) -> Result<Apt> {
        Apt::prepare(dir, suites, &["deb"], architectures)
    }

    fn prepare(
        dir: &Path,
        suites: &[String],
        kinds: &[&str],
        architectures: &[&str],
    ) -> Result<Apt> {
        for folder in ["lists/partial", "cache/archives/partial", "state"] {
            create_dir(&dir.join(folder))?;
        }
        let mirror = find_mirror(Path::new("/etc/apt"))?;
        let keyring = mirror
            .signed_by
            .or_else(|| Path::new(KEYRING).exists().then(|| KEYRING.to_owned()))
            .map(|path| format!("[signed-by={path}] "))
            .unwrap_or_default();
        let mut list = String::new();
        for suite in suites {
            for kind in kinds {
                list.push_str(&format!("{kind} {keyring}{} {suite} main\n", mirror.uri));
            }
        }
        write_atomic(&dir.join("sources.list"), list.as_bytes())?;
        Ok(Apt {
            dir: dir.to_owned(),
            architectures: architectures.iter().map(|&a| a.to_owned()).collect(),
        })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let option = |name: &str, path: &str| {
            let mut option = OsString::from(name);
            option.push("=");
            option.push(self.dir.join(path));
            option
        };
        for (name, path) in [
            ("Dir::State::lists", "lists"),
            ("Dir::State", "state"),
            ("Dir::Cache", "cache"),
            ("Dir::Etc::sourcelist", "sources.list"),
        ] {
            command.arg("-o").arg(option(name, path));
        }
        // A status file must exist; the system's does not matter here.
        command.args(["-o", "Dir::State::status=/dev/null"]);
        command.args([
            "-o",
            "Dir::Etc::sourceparts=-",
            "-o",
            "APT::Get::List-Cleanup=0",
        ]);
        command.args(["-o", "Acquire::Retries=3", "-o", "Acquire::Languages=none"]);
        for architecture in &self.architectures {
            command.args(["-o", &format!("APT::Architectures::={architecture}")]);
        }
        if rustix::process::geteuid().is_root() {
            // The sandbox user `_apt` could not write to a cache in root's home.
            command.args(["-o", "APT::Sandbox::User=root"]);
        }
        command.env("LC_ALL", "C");
        command
    }

    /// Refreshes the lists.
    pub(crate) fn update(&self) -> Result<()> {
        let mut command = self.command("apt-get");
        // Without this option, an unreachable mirror is only a warning.
        command.args(["-q", "-o", "APT::Update::Error-Mode=any", "update"]);
        run(command, "downloading the package lists")
            .map(drop)
            .map_err(explain_network)
    }

    /// Downloads a source package, or only its upstream tarballs, into `dir`.
    pub(crate) fn source(
        &self,
        name: &str,
        version: &str,
        tar_only: bool,
        dir: &Path,
    ) -> Result<()> {
        let mut command = self.command("apt-get");
        command.args(["-q", "source", "--download-only"]);
        if tar_only {
            command.arg("--tar-only");
        }
        command.arg(format!("{name}={version}")).current_dir(dir);
        run(
            command,
            &format!("downloading the source of {name} {version}"),
        )
        .map(drop)
        .map_err(explain_network)
    }

    /// Downloads a binary package into `dir`.
    pub(crate) fn binary(&self, name: &str, version: &str, dir: &Path) -> Result<()> {
        let mut command = self.command("apt-get");
        command
            .args(["-q", "download", &format!("{name}={version}")])
            .current_dir(dir);
        run(command, &format!("downloading {name} {version}"))
            .map(drop)
            .map_err(explain_network)
    }

    /// Downloads binary packages (`name=version`, `name:architecture=version`) into `dir`.
    pub(crate) fn binaries(&self, packages: &[String], dir: &Path) -> Result<()> {
        let mut command = self.command("apt-get");
        command
            .args(["-q", "download"])
            .args(packages)
            .current_dir(dir);
        let what = match packages {
            [one] => format!("downloading {one}"),
            _ => format!("downloading {} packages", packages.len()),
        };
        run(command, &what).map(drop).map_err(explain_network)
    }

    /// The packages that a binary package depends on.
    pub(crate) fn dependencies(&self, name: &str) -> Result<Vec<String>> {
        let mut command = self.command("apt-cache");
        command.args(["depends", name]);
        let text = run(command, &format!("listing what {name} depends on"))?;
        Ok(text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Depends: "))
            .map(str::to_owned)
            .collect())
    }

    /// The versions of a binary package in the archive, the newest first.
    pub(crate) fn binary_versions(&self, name: &str) -> Result<Vec<String>> {
        let mut command = self.command("apt-cache");
        command.args(["show", name]);
        let text = run(command, &format!("listing the versions of {name}"))?;
        Ok(text
            .lines()
            .filter_map(|line| line.strip_prefix("Version: "))
            .map(str::to_owned)
            .collect())
    }

    /// The versions of a source package in the archive, newest first.
    pub(crate) fn source_versions(&self, name: &str) -> Result<Vec<String>> {
        let mut command = self.command("apt-cache");
        command.args(["showsrc", "--only-source", name]);
        let text = run(command, &format!("listing the versions of {name}"))?;
        let mut versions: Vec<String> = text
            .lines()
            .filter_map(|line| line.strip_prefix("Version: "))
            .map(str::to_owned)
            .collect();
        // Versions of one package compare well enough as text within a release of the JDK.
        versions.sort();
        versions.dedup();
        versions.reverse();
        Ok(versions)
    }
}

/// Whether an error means that the archive does not have this version, or not any more.
pub(crate) fn is_gone(error: &Error) -> bool {
    let Error::Program { output, .. } = error else {
        return false;
    };
    [
        "Can not find version",
        "Unable to find a source package",
        "was not found",
        "404  Not Found",
    ]
    .iter()
    .any(|text| output.contains(text))
}

fn explain_network(error: Error) -> Error {
    let Error::Program {
        what,
        status,
        output,
    } = error
    else {
        return error;
    };
    let network = [
        "Could not resolve",
        "Temporary failure resolving",
        "Could not connect",
        "Connection failed",
        "Connection timed out",
        "Network is unreachable",
        "Unable to connect",
        "Cannot initiate the connection",
        "Connection refused",
    ];
    if network.iter().any(|text| output.contains(text)) {
        return Error::Other(format!(
            "{what} failed: Debian's archive can't be reached. Check the network, or the mirror in \
             /etc/apt, and run the command again: what is downloaded already is kept.\n{output}"
        ));
    }
    Error::Program {
        what,
        status,
        output,
    }
}

/// The mirror of the system's own sources, in either format.
fn find_mirror(etc: &Path) -> Result<Mirror> {
    let mut files = vec![etc.join("sources.list")];
    let parts = etc.join("sources.list.d");
    if parts.is_dir() {
        let mut found: Vec<PathBuf> = std::fs::read_dir(&parts)
            .and_then(|dir| dir.map(|entry| entry.map(|e| e.path())).collect())
            .context("list", &parts)?;
        found.sort();
        files.extend(found);
    }
    for file in files {
        let Ok(text) = std::fs::read_to_string(&file) else {
            continue;
        };
        let found = match file.extension().and_then(|e| e.to_str()) {
            Some("list") => one_line_mirror(&text),
            Some("sources") => deb822_mirror(&text),
            _ => None,
        };
        if let Some(mirror) = found {
            return Ok(mirror);
        }
    }
    Err(Error::Other(
        "no Debian archive in /etc/apt/sources.list or sources.list.d: the lab takes the sources of \
         ART from the mirror that the system itself uses, and needs Debian (bookworm or later)"
            .to_owned(),
    ))
}

fn one_line_mirror(text: &str) -> Option<Mirror> {
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or("").trim();
        let rest = line
            .strip_prefix("deb ")
            .or_else(|| line.strip_prefix("deb-src "));
        let Some(mut rest) = rest.map(str::trim_start) else {
            continue;
        };
        let mut signed_by = None;
        if let Some(options) = rest.strip_prefix('[') {
            let Some((inside, after)) = options.split_once(']') else {
                continue;
            };
            signed_by = inside
                .split_whitespace()
                .find_map(|option| option.strip_prefix("signed-by="))
                .map(str::to_owned);
            rest = after.trim_start();
        }
        let mut words = rest.split_whitespace();
        let (Some(uri), Some(suite)) = (words.next(), words.next()) else {
            continue;
        };
        if SUITES.contains(&suite) && words.any(|component| component == "main") {
            return Some(Mirror {
                uri: uri.to_owned(),
                signed_by,
            });
        }
    }
    None
}

fn deb822_mirror(text: &str) -> Option<Mirror> {
    for stanza in text.split("\n\n") {
        let field = |name: &str| {
            stanza
                .lines()
                .filter(|line| !line.starts_with('#'))
                .find_map(|line| {
                    let (key, value) = line.split_once(':')?;
                    key.eq_ignore_ascii_case(name)
                        .then(|| value.trim().to_owned())
                })
        };
        if field("Enabled").is_some_and(|value| value == "no") {
            continue;
        }
        let has = |name: &str, wanted: &dyn Fn(&str) -> bool| {
            field(name).is_some_and(|value| value.split_whitespace().any(wanted))
        };
        if has("Suites", &|suite| SUITES.contains(&suite)) && has("Components", &|c| c == "main") {
            let uri = field("URIs")?.split_whitespace().next()?.to_owned();
            // The field may also hold a key itself, which starts with a newline.
            let signed_by = field("Signed-By").filter(|path| path.starts_with('/'));
            return Some(Mirror { uri, signed_by });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_found_in_both_formats() {
        let list = "# deb http://old.example/debian bookworm main\n\
             deb http://security.example/debian-security bookworm-security main\n\
             deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian bookworm main contrib\n";
        assert_eq!(
            one_line_mirror(list),
            Some(Mirror {
                uri: "http://mirror.example/debian".into(),
                signed_by: Some("/k.gpg".into())
            })
        );
        let sources =
            "Types: deb\nURIs: http://other.example/x\nSuites: nodistro\nComponents: main\n\n\
             Types: deb\n# a comment: with colon\nURIs: http://mirror.example/debian\n\
             Suites: bookworm bookworm-updates\nComponents: main\nSigned-By: /k.gpg\n";
        assert_eq!(
            deb822_mirror(sources),
            Some(Mirror {
                uri: "http://mirror.example/debian".into(),
                signed_by: Some("/k.gpg".into())
            })
        );
        assert_eq!(
            deb822_mirror("URIs: x\nSuites: jammy\nComponents: main"),
            None
        );
    }

    #[test]
    fn a_system_without_debian_is_told_so() {
        let etc = tempfile::tempdir().unwrap();
        std::fs::write(
            etc.path().join("sources.list"),
            "deb http://x.example/u jammy main\n",
        )
        .unwrap();
        assert!(find_mirror(etc.path())
            .unwrap_err()
            .to_string()
            .contains("no Debian archive"));
    }
}
