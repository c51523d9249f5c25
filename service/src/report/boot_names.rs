// SPDX-License-Identifier: Apache-2.0
//! The names of the boot image's methods, given by one process that is trusted, for all that end before they have written theirs.
//!
//! They are kept in the store, and read for a report that needs them only: the service has no memory of them in between.

use std::fs::File;
use std::sync::Arc;

use hindsight_trace_format::shared::{BootNames, Naming, SharedError, MAX_BOOT_NAMES_BYTES};

use crate::engine::Peer;
use crate::store::Store;

/// The most memory that the names take while a report is written, bytes.
pub const BOOT_NAMES_BYTES: u64 = MAX_BOOT_NAMES_BYTES;

/// A process that has written the names of its classes.
#[derive(Debug)]
pub struct GivenNames {
    /// Its memory.
    pub memory: Arc<File>,
    /// Names that are read of it at most, bytes.
    pub most: u64,
    /// The process, by the kernel's account.
    pub peer: Peer,
}

/// One table for each width of addresses: a device has no more boot images.
fn name(naming: &Naming) -> &'static str {
    match naming.is_32_bit {
        true => "names-32",
        false => "names-64",
    }
}

/// The table that is kept for processes like this one, if it is of their image.
fn kept(store: &Store, naming: &Naming) -> Option<BootNames> {
    let bytes = store
        .load_bytes(name(naming), MAX_BOOT_NAMES_BYTES + 1)
        .ok()?;
    BootNames::decode(bytes).filter(|names| names.is_of(&naming.image))
}

/// Keeps the names that the process gives, unless there are as many of its image already. Returns a line for the log.
pub(super) fn learn(store: &mut Store, given: &GivenNames) -> Option<String> {
    let Peer { pid, uid } = given.peer;
    let who = format!("names of the boot image from process {pid}, user {uid}");
    match try_learn(store, given) {
        Ok(None) => None,
        Ok(Some(methods)) => Some(format!("{who}: {methods} methods")),
        Err(why) => Some(format!("{who} are not kept: {why}")),
    }
}

fn try_learn(store: &mut Store, given: &GivenNames) -> Result<Option<u64>, String> {
    let text = |e: SharedError| e.to_string();
    let memory = &*given.memory;
    let naming = Naming::read(memory).map_err(text)?;
    if naming.image.bytes == 0 {
        return Ok(None);
    }
    let known = kept(store, &naming).map_or(0, |names| names.methods());
    let names = BootNames::learn(memory, given.most).map_err(text)?;
    let Some(names) = names.filter(|names| names.methods() > known) else {
        return Ok(None);
    };
    let saved = store.save_bytes(name(&naming), &names.encode());
    saved.map_err(|e| format!("they cannot be saved: {e}"))?;
    Ok(Some(names.methods()))
}

/// The names for a process that has not written all of its own.
pub(super) fn for_process(store: &Store, memory: &File) -> Option<BootNames> {
    let naming = Naming::read(memory).ok()?;
    let needs_them = !naming.is_complete && naming.image.bytes != 0;
    needs_them.then(|| kept(store, &naming)).flatten()
}
