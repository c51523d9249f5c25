// SPDX-License-Identifier: Apache-2.0
//! The guest's SELinux policies: `lab/vm/policy` with the overlay's rules, compiled by checkpolicy.

use crate::error::{Error, IoContext as _, Result};
use crate::util::{read, run};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of the binary format; Android 10's own.
const VERSION: &str = "30";

/// A policy of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// Android's rules on a debuggable build, without the overlay's.
    WithoutOverlay,
    /// A user build with the overlay.
    User,
    /// A debuggable build with the overlay.
    Debuggable,
}

impl Policy {
    pub(super) const ALL: [Policy; 3] = [Policy::WithoutOverlay, Policy::User, Policy::Debuggable];

    /// The name of its file in the guest.
    pub(super) fn name(self) -> &'static str {
        match self {
            Policy::WithoutOverlay => "without-overlay",
            Policy::User => "user",
            Policy::Debuggable => "debuggable",
        }
    }
}

/// Compiles a policy; returns its binary form.
pub(super) fn compile(checkout: &Path, release: &str, policy: Policy) -> Result<Vec<u8>> {
    let overlay = match policy {
        Policy::WithoutOverlay => Vec::new(),
        Policy::User | Policy::Debuggable => overlay(checkout, release)?,
    };
    let base = checkout.join("lab/vm/policy");
    let variant = match policy {
        Policy::User => "user",
        _ => "userdebug",
    };
    let work = tempfile::tempdir().context("make a folder in", std::env::temp_dir())?;
    let (text, binary) = (work.path().join("policy.conf"), work.path().join("policy"));
    let mut m4 = Command::new("m4");
    m4.arg(format!("-DVARIANT={variant}"));
    m4.args([base.join("classes.te"), base.join("base.te")]);
    m4.args(overlay).arg(base.join("end.te"));
    let expanded = run(m4, "expanding the guest's policy")?;
    std::fs::write(&text, without_neverallow(&expanded)).context("write", &text)?;
    let mut checkpolicy = Command::new("checkpolicy");
    checkpolicy.args(["-M", "-U", "allow", "-c", VERSION, "-o"]);
    checkpolicy.arg(&binary).arg(&text);
    run(checkpolicy, "compiling the guest's policy")?;
    std::fs::read(&binary).context("read", &binary)
}

/// A policy without its neverallow rules. The guest's init may do everything, and enters all domains itself, which Android's
/// rules forbid. The tests of the overlay's policy check them.
fn without_neverallow(policy: &str) -> String {
    let mut kept = String::with_capacity(policy.len());
    let mut is_inside = false;
    for line in policy.lines() {
        is_inside |= line.trim_start().starts_with("neverallow ");
        if !is_inside {
            kept.push_str(line);
            kept.push('\n');
        }
        is_inside &= !line.contains(';');
    }
    kept
}

/// The overlay's files of rules. A file of the release replaces the common file of the same name.
fn overlay(checkout: &Path, release: &str) -> Result<Vec<PathBuf>> {
    let mut files = BTreeMap::new();
    for folder in ["common", release] {
        let dir = checkout.join("aosp").join(folder).join("sepolicy/private");
        for entry in std::fs::read_dir(&dir).context("list", &dir)? {
            let path = entry.context("list", &dir)?.path();
            if path.extension().is_some_and(|extension| extension == "te") {
                files.insert(path.file_name().map(ToOwned::to_owned), path);
            }
        }
    }
    Ok(files.into_values().collect())
}

/// Where the init script of tracing without the service is in the checkout.
const SCRIPT: &str = "aosp/common/hindsight.rc";
/// Where the init script of the service is in the checkout.
pub(super) const SERVICE_SCRIPT: &str = "aosp/common/service/hindsightd.rc";

/// The words after a command that one of the overlay's init scripts runs when tracing is switched on.
fn shipped(checkout: &Path, script: &str, command: &str) -> Result<String> {
    let path = checkout.join(script);
    let text = read(&path)?;
    let found = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(command));
    found
        .map(|rest| rest.trim().to_owned())
        .ok_or_else(|| Error::Other(format!("{} has no line '{command}…'", path.display())))
}

/// What `hindsight.rc` sets the configuration to when tracing is switched on.
pub(super) fn shipped_configuration(checkout: &Path) -> Result<String> {
    shipped(checkout, SCRIPT, "setprop persist.hindsight.trace ")
}

/// What `hindsightd.rc` sets the configuration to when the service is switched on.
pub(super) fn service_configuration(checkout: &Path) -> Result<String> {
    shipped(checkout, SERVICE_SCRIPT, "setprop persist.hindsight.trace ")
}

/// What `hindsight.rc` does with the folder of traces, as a command of the shell.
pub(super) fn shipped_modes(checkout: &Path) -> Result<String> {
    Ok(format!("chmod {}", shipped(checkout, SCRIPT, "chmod ")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::checkout_dir;

    #[test]
    fn the_files_of_a_release_take_the_place_of_common_ones() {
        let files = overlay(&checkout_dir().unwrap(), "android-10").unwrap();
        let shown: Vec<String> = files
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        let of = |end: &str| shown.iter().filter(|path| path.ends_with(end)).count();
        assert_eq!(of("common/sepolicy/private/hindsight.te"), 1, "{shown:?}");
        assert_eq!(
            of("android-10/sepolicy/private/hindsight_prop.te"),
            1,
            "{shown:?}"
        );
    }

    #[test]
    fn neverallow_rules_are_left_out_up_to_their_end() {
        let policy =
            "allow a b:file read;\nneverallow a\n  { b c }:file\n  write;\nallow a c:file read;\n";
        let kept = "allow a b:file read;\nallow a c:file read;\n";
        assert_eq!(without_neverallow(policy), kept);
    }

    #[test]
    fn all_policies_of_the_guest_compile() {
        let checkout = checkout_dir().unwrap();
        for policy in Policy::ALL {
            match compile(&checkout, "android-10", policy) {
                Ok(binary) => assert!(!binary.is_empty()),
                Err(Error::NoProgram { program, .. }) => {
                    let required = std::env::var_os("HINDSIGHT_REQUIRE_TOOLS");
                    assert!(required.is_none_or(|value| value != "1"), "no {program}");
                    eprintln!("skipped: all_policies_of_the_guest_compile: no {program}");
                    return;
                }
                Err(error) => panic!("{}: {error}", policy.name()),
            }
        }
    }

    #[test]
    fn the_configuration_is_the_shipped_one() {
        let found = shipped_configuration(&checkout_dir().unwrap()).unwrap();
        assert!(found.contains("dir=/data/misc/trace"), "{found}");
        let found = service_configuration(&checkout_dir().unwrap()).unwrap();
        assert!(found.contains("service=/dev/socket/hindsightd"), "{found}");
        let modes = shipped_modes(&checkout_dir().unwrap()).unwrap();
        assert_eq!(modes, "chmod 01773 /data/misc/trace");
    }
}
