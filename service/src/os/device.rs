// SPDX-License-Identifier: Apache-2.0
//! Facts about the device, as Android or Linux tells them.

use std::ffi::CStr;

use crate::context::{DeviceFacts, Fact};

/// What the system tells. Where it tells nothing, the fact is not known.
pub(super) fn read() -> DeviceFacts {
    let mut facts = DeviceFacts::default();
    for (fact, name) in [
        (Fact::Model, c"ro.product.model"),
        (Fact::Build, c"ro.build.fingerprint"),
        (Fact::Release, c"ro.build.version.release"),
    ] {
        facts.set(fact, &property(name));
    }
    facts.set(Fact::Kernel, &kernel());
    // SAFETY: takes a number only.
    let cores = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    if cores > 0 {
        facts.set(Fact::Cores, &cores.to_string());
    }
    if let Some(mib) = memory_mib() {
        facts.set(Fact::MemoryMib, &mib.to_string());
    }
    facts
}

/// A property of Android; empty if there is none.
#[cfg(target_os = "android")]
fn property(name: &CStr) -> String {
    // `PROP_VALUE_MAX`: longer values have no old reader. A value that does not fit is told by its first bytes.
    let mut value = [0 as libc::c_char; 92];
    // SAFETY: the name ends with 0, and the value has the room that the call may use, its end included.
    let length = unsafe { libc::__system_property_get(name.as_ptr(), value.as_mut_ptr()) };
    let length = usize::try_from(length).unwrap_or(0).min(value.len());
    let bytes: Vec<u8> = value[..length].iter().map(|c| *c as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(not(target_os = "android"))]
fn property(_: &CStr) -> String {
    String::new()
}

fn kernel() -> String {
    // SAFETY: all zeros is a valid `utsname`: arrays of characters.
    let mut name: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: `name` is a valid place for the result.
    if unsafe { libc::uname(&mut name) } != 0 {
        return String::new();
    }
    let bytes = name.release.iter().map(|c| *c as u8);
    let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn memory_mib() -> Option<u64> {
    // SAFETY: all zeros is a valid `sysinfo`: numbers.
    let mut info: libc::sysinfo = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is a valid place for the result.
    if unsafe { libc::sysinfo(&mut info) } != 0 {
        return None;
    }
    #[allow(
        clippy::unnecessary_cast,
        reason = "32-bit systems have a narrower type"
    )]
    let total = info.totalram as u64;
    Some(total.saturating_mul(u64::from(info.mem_unit.max(1))) >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_tells_processors_memory_and_kernel() {
        let facts = read();
        let number = |fact| facts.get(fact).and_then(|text| text.parse::<u64>().ok());
        assert!(number(Fact::Cores) >= Some(1));
        assert!(number(Fact::MemoryMib) >= Some(256));
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        assert_eq!(facts.get(Fact::Kernel), Some(release.trim()));
        if cfg!(not(target_os = "android")) {
            assert_eq!(facts.get(Fact::Model), None);
        }
    }
}
