// SPDX-License-Identifier: Apache-2.0
//! Turns taken rings into a `.hindsight` file.

use std::path::{Path, PathBuf};

use hindsight_trace_format::container::{
    write_file, Anchor, Losses, ProcessFacts, SectionKind, Symbol, Symbols,
};

use crate::clock;
use crate::recorder::{lock, Shared};
use crate::thread_trace::TakenRing;

/// The name of this instruction set, as in [`ProcessFacts::isa`].
const ISA: &str = if cfg!(target_arch = "x86_64") {
    "x86_64"
} else if cfg!(target_arch = "aarch64") {
    "arm64"
} else if cfg!(target_arch = "arm") {
    "arm"
} else {
    "unknown"
};

/// What is persisted, besides the rings.
pub(crate) struct Request<'a> {
    /// Why.
    pub(crate) reason: &'a str,
    /// Thread id of who noticed, or 0.
    pub(crate) raised_by: u32,
    /// What was lost, and how often.
    pub(crate) losses: Vec<(String, u64)>,
    /// The file; `None` for a new one in the configured directory.
    pub(crate) path: Option<PathBuf>,
}

/// Writes the rings to a file, and returns its path. On an error there
/// is no file, and the message says what to do.
pub(crate) fn write(
    shared: &Shared,
    rings: &[TakenRing],
    request: Request<'_>,
) -> Result<PathBuf, String> {
    if rings.is_empty() {
        return Err("nothing to persist: no thread is traced (is trace=main or all?)".into());
    }
    let Request {
        reason,
        raised_by,
        mut losses,
        path,
    } = request;
    let clocks = clock::clocks_since(shared.started);
    let addresses = method_addresses(rings);
    let mut symbols: Vec<Symbol> = Vec::with_capacity(addresses.len());
    (shared.host).symbolize(&addresses, &mut |symbol| symbols.push(symbol));
    {
        let journal = lock(&shared.journal);
        journal.add_names(&addresses, &mut symbols);
        if journal.dropped() != 0 {
            losses.push((
                "names of unloaded methods, for want of memory".into(),
                journal.dropped(),
            ));
        }
    }
    symbols.sort_unstable();
    let named = symbols.chunk_by(|a, b| a.address == b.address).count();
    if named < addresses.len() {
        let unnamed = addresses.len() - named;
        losses.push(("methods without a name".into(), unnamed as u64));
    }

    let identity = shared.host.identity();
    let facts = ProcessFacts {
        pid: std::process::id(),
        // SAFETY: no precondition.
        uid: unsafe { libc::getuid() },
        name: identity.name,
        isa: ISA.into(),
        reason: reason.into(),
        raised_by,
        extra: identity.extra,
    };
    let path = path.unwrap_or_else(|| file_name(&shared.config.directory, &facts.name, facts.pid));
    let written = write_file(&path, |writer| {
        writer.section(SectionKind::Process, 0, &[&facts.encode()])?;
        writer.section(SectionKind::Clocks, 0, &[&clocks.encode()])?;
        for (index, taken) in (0..).zip(rings) {
            let header = taken.header.encode();
            writer.section(SectionKind::Ring, index, &[&header, taken.written_bytes()])?;
            writer.section(
                SectionKind::Anchors,
                index,
                &[&Anchor::encode_all(&taken.anchors)],
            )?;
        }
        writer.section(SectionKind::Symbols, 0, &[&Symbols { symbols }.encode()])?;
        writer.section(
            SectionKind::Losses,
            0,
            &[&Losses { counts: losses }.encode()],
        )
    });
    match written {
        Ok(()) => Ok(path),
        Err(e) => Err(format!(
            "cannot persist to {}: {e}. Is the directory there and writable, with {} MiB free?",
            path.display(),
            rings.iter().map(|r| r.written_bytes().len()).sum::<usize>() >> 20
        )),
    }
}

/// `<dir>/<process>-<pid>-<number>.hindsight`, with the first number that is not taken: the system
/// uses process ids again, and an older process's file must stay.
fn file_name(directory: &Path, process: &str, pid: u32) -> PathBuf {
    let safe: String = process
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '_'
            }
        })
        .take(64)
        .collect();
    let safe = safe.trim_start_matches('.');
    let mut number = 1_u32;
    loop {
        let path = directory.join(format!("{safe}-{pid}-{number}.hindsight"));
        if !path.exists() || number == u32::MAX {
            return path;
        }
        number += 1;
    }
}

/// The addresses of all methods entered in the rings, in order, each once.
fn method_addresses(rings: &[TakenRing]) -> Vec<u64> {
    /// Sorting now and then keeps the list near the number of methods, not of calls.
    const COMPACT_AT: usize = 1 << 16;
    let mut addresses = Vec::with_capacity(COMPACT_AT);
    let mut compact_at = COMPACT_AT;
    for event in rings.iter().flat_map(|ring| ring.slots().events()) {
        if let Some(method) = event.entered_method() {
            addresses.push(method);
            if addresses.len() == compact_at {
                addresses.sort_unstable();
                addresses.dedup();
                compact_at = COMPACT_AT.max(addresses.len() * 2);
            }
        }
    }
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_safe() {
        let name = |process| file_name(Path::new("/d"), process, 7).display().to_string();
        assert_eq!(
            name("com.example.app:remote"),
            "/d/com.example.app_remote-7-1.hindsight"
        );
        assert_eq!(name("../../etc/passwd"), "/d/_.._etc_passwd-7-1.hindsight");
        assert_eq!(name(""), "/d/-7-1.hindsight");
    }

    #[test]
    fn an_older_file_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let first = file_name(folder.path(), "app", 7);
        std::fs::write(&first, "old").unwrap();
        let second = file_name(folder.path(), "app", 7);
        assert_eq!(first.file_name().unwrap(), "app-7-1.hindsight");
        assert_eq!(second.file_name().unwrap(), "app-7-2.hindsight");
    }
}
