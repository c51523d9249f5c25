// SPDX-License-Identifier: Apache-2.0
//! SELinux labels: of files, and of what a process makes next.

use anyhow::{anyhow, Context as _, Result};
use std::ffi::CString;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;

const ATTRIBUTE: &std::ffi::CStr = c"security.selinux";

/// The label that `file_contexts` has for a path: of its last line that fits.
///
/// # Errors
/// If no line fits.
pub(crate) fn label_of(contexts: &str, path: &str) -> Result<String> {
    let fits = |line: &str| {
        let mut words = line.split_whitespace();
        let (pattern, label) = (words.next()?, words.next()?);
        // The overlay has only paths, and whole folders.
        let is_it = match pattern.strip_suffix("(/.*)?") {
            Some(folder) => path
                .strip_prefix(folder)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
            None => pattern == path,
        };
        is_it.then(|| label.to_owned())
    };
    let found = contexts.lines().filter(|line| !line.starts_with('#'));
    found
        .rev()
        .find_map(fits)
        .ok_or_else(|| anyhow!("file_contexts has no label for {path}"))
}

/// The label of a file.
fn get(path: &str) -> Result<String> {
    let name = CString::new(path)?;
    let mut value = [0_u8; 256];
    // SAFETY: both texts end with 0; the value has room for the given length.
    let length = unsafe {
        libc::lgetxattr(
            name.as_ptr(),
            ATTRIBUTE.as_ptr(),
            value.as_mut_ptr().cast(),
            value.len(),
        )
    };
    let length = usize::try_from(length)
        .map_err(|_| anyhow!("{path}: {}", std::io::Error::last_os_error()))?;
    Ok(String::from_utf8_lossy(&value[..length])
        .trim_end_matches('\0')
        .to_owned())
}

/// Prints mode, owner, label and name.
///
/// # Errors
/// If the file cannot be looked at.
pub(crate) fn print(path: &str) -> Result<()> {
    let file = fs::symlink_metadata(path).with_context(|| path.to_owned())?;
    let mode = file.mode() & 0o7777;
    println!(
        "{mode:04o} {}:{} {} {path}",
        file.uid(),
        file.gid(),
        get(path)?
    );
    Ok(())
}

/// Sets the label of what this process makes from now on: `fscreate`, `sockcreate`, or `exec` for the next program.
/// An empty one is the policy's own again.
///
/// # Errors
/// If the policy does not know the label.
pub(crate) fn next(attribute: &str, label: &str) -> Result<()> {
    let path = format!("/proc/self/attr/{attribute}");
    let mut file = fs::OpenOptions::new().write(true).open(&path)?;
    // No bytes would not reach the kernel.
    let bytes = if label.is_empty() {
        b"\0"
    } else {
        label.as_bytes()
    };
    file.write_all(bytes)
        .with_context(|| format!("write '{label}' to {path}"))
}

/// The domain of a process of `domain` after it has started a program with this label, as the loaded policy has it.
///
/// # Errors
/// If the kernel does not tell.
pub(crate) fn after_exec(domain: &str, program: &str) -> Result<String> {
    let class = fs::read_to_string("/sys/fs/selinux/class/process/index")
        .context("read the number of the class 'process'")?;
    let mut file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/sys/fs/selinux/create")?;
    // In one piece: the kernel takes each write as a question.
    let question = format!("{domain} {program} {}", class.trim());
    file.write_all(question.as_bytes())
        .with_context(|| format!("ask for {domain} after {program}"))?;
    let mut answer = String::new();
    file.read_to_string(&mut answer)?;
    Ok(answer.trim_end_matches('\0').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_contexts_have_labels_of_files_and_whole_folders() {
        let contexts = include_str!("../../../aosp/common/sepolicy/private/file_contexts");
        let of = |path| label_of(contexts, path);
        assert_eq!(
            of("/data/misc/hindsight").unwrap(),
            "u:object_r:hindsight_data_file:s0"
        );
        assert_eq!(
            of("/data/misc/hindsight/1.hindsight").unwrap(),
            "u:object_r:hindsight_data_file:s0"
        );
        assert_eq!(
            of("/system/bin/hindsightd").unwrap(),
            "u:object_r:hindsightd_exec:s0"
        );
        assert!(of("/data/misc/hindsights").is_err());
    }
}
