// SPDX-License-Identifier: Apache-2.0
//! Takes the rings of all threads, and writes them to a `.hindsight` file.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::SystemTime;

use hindsight_trace_format::container::{
    Contents, Losses, ProcessFacts, RingContents, Stacks, Symbol,
};
use hindsight_trace_format::methods::MethodAddresses;
use hindsight_trace_format::shared::Loss;

use crate::clock;
use crate::control::rate::{Rate, BURST};
use crate::control::retention;
use crate::folder::kept::KeptFiles;
use crate::handshake::{Handshake, TracedThread};
use crate::host::Severity;
use crate::session::Session;
use crate::thread::taken::TakenRing;

/// The name of this instruction set, as in [`ProcessFacts::isa`].
pub(crate) const ISA: &str = if cfg!(target_arch = "x86_64") {
    "x86_64"
} else if cfg!(target_arch = "aarch64") {
    "arm64"
} else if cfg!(target_arch = "arm") {
    "arm"
} else {
    "unknown"
};

const NOTHING: &str = "nothing to write: no thread is traced (is trace=main or all?)";

/// The contents of a file besides the rings.
pub(crate) struct Request<'a> {
    /// The trigger, in words.
    pub(crate) reason: &'a str,
    /// Kernel id of the thread that triggered the snapshot; 0 if it came from outside.
    pub(crate) triggered_by: u32,
    /// Each kind of loss, with its number.
    pub(crate) losses: Vec<(String, u64)>,
    /// The file, for which there is room.
    pub(crate) path: PathBuf,
}

/// Takes the rings of all threads, the retired rings and the spool, with the losses that this causes. With `last` set, no
/// thread is traced any more afterwards; otherwise all go on in other rings.
pub(crate) fn take_rings(
    session: &Session,
    handshake: &mut dyn Handshake,
    last: bool,
) -> (Vec<TakenRing>, Vec<(Loss, u64)>) {
    let mut rings = session.registry.take_retired(|_| true);
    let mut without_memory = 0;
    // Each with the place of its ring among the rings.
    let mut exchanged: Vec<(Arc<TracedThread>, usize)> = Vec::new();
    if last {
        session.set_categories(0);
    }
    for thread in session.registry.threads() {
        if thread.trace().records_events_only() {
            let mut replacement = None;
            if !last {
                replacement = session.spool.ring().ok();
                without_memory += u64::from(replacement.is_none());
            }
            let taken = retention::exchange_events(session, handshake, &thread, &mut replacement);
            exchanged.extend(taken.is_some().then(|| (Arc::clone(&thread), rings.len())));
            rings.extend(taken);
            if let Some(unused) = replacement {
                session.put_back(unused);
            }
        }
        if !thread.trace().is_traced() {
            continue;
        }
        let mut replacement = None;
        if !last {
            replacement = retention::replacement(session, thread.trace().tid());
            without_memory += u64::from(replacement.is_none());
        }
        let taken = retention::exchange_calls(session, handshake, &thread, &mut replacement);
        if let Some(taken) = &taken {
            session.check_balance(taken, false);
            exchanged.push((Arc::clone(&thread), rings.len()));
        }
        rings.extend(taken);
        if let Some(unused) = replacement {
            session.put_back(unused);
        }
    }
    // Threads that ended meanwhile: there may be no later file for their rings. If there is one, a file has one ring
    // of each thread.
    let ended = session
        .registry
        .take_retired(|ended| last || rings.iter().all(|r| r.header.tid != ended.header.tid));
    rings.extend(ended);
    // Last, for threads that end or fill a ring meanwhile.
    let (spooled, dropped) = session.spool.take_all();
    rings.extend(spooled);
    // When all have been taken: long rings take some ms.
    for (thread, place) in exchanged {
        if let Some(taken) = rings.get(place) {
            thread.trace().note_under_way(taken);
        }
    }
    let (_, refused) = session.event_rings();
    let losses = vec![
        (Loss::OldEvents, dropped),
        (Loss::ThreadsWithoutEvents, refused),
        (Loss::ThreadsStopped, without_memory),
    ];
    (rings, losses)
}

/// What is missing in all rings of the process.
pub(crate) fn losses_so_far(session: &Session) -> [(Loss, u64); 3] {
    [
        (Loss::ThreadsNotStarted, session.refused_rings()),
        (Loss::EventNames, session.names().refused()),
        (Loss::Stacks, session.stacks.lost()),
    ]
}

/// The losses that there are, as files have them.
pub(crate) fn in_words(losses: impl IntoIterator<Item = (Loss, u64)>) -> Vec<(String, u64)> {
    let losses = losses.into_iter().filter(|(_, count)| *count != 0);
    losses
        .map(|(loss, count)| (loss.text().into(), count))
        .collect()
}

/// Writes the rings to a file, returns their memory, and logs and returns the file's path.
///
/// # Errors
/// A message for the user, with the remedy. There is no file then.
pub(crate) fn write(
    session: &Session,
    mut rings: Vec<TakenRing>,
    request: Request<'_>,
) -> Result<PathBuf, String> {
    // The thread that triggered the snapshot first, then the main thread, then by id: readers show them in this order.
    let main = std::process::id();
    rings.sort_by_key(|r| {
        let tid = r.header.tid;
        let part = (r.header.thread, r.header.part);
        (tid != request.triggered_by, tid != main, tid, part)
    });
    let reason = request.reason.to_owned();
    let written = write_rings(session, &rings, request);
    for taken in rings {
        session.put_back(taken.ring);
    }
    if let Ok(path) = &written {
        let message = format!("wrote {}: {reason}", path.display());
        session.host.log(Severity::Info, &message);
    }
    written
}

fn write_rings(
    session: &Session,
    rings: &[TakenRing],
    request: Request<'_>,
) -> Result<PathBuf, String> {
    if rings.is_empty() {
        return Err(NOTHING.into());
    }
    let Request {
        reason,
        triggered_by,
        mut losses,
        path,
    } = request;
    let unnamed_loaders = session.unnamed_loaders();
    if unnamed_loaders != 0 {
        losses.push((
            "class loaders unloaded before their methods could be named".into(),
            unnamed_loaders,
        ));
    }
    let identity = session.host.identity();
    let clocks = clock::clocks_since(session.started);
    // After the rings were taken: all nodes that they name are there.
    let strings = session.names().strings();
    let stacks = session.stacks.snapshot();
    losses.extend(in_words(losses_so_far(session)));
    let symbols = symbols(session, rings, &stacks, &mut losses);
    let contents = Contents {
        process: ProcessFacts {
            pid: std::process::id(),
            // SAFETY: no precondition.
            uid: unsafe { libc::getuid() },
            name: identity.name,
            isa: ISA.into(),
            reason: reason.into(),
            raised_by: triggered_by,
            extra: identity.extra,
        },
        clocks,
        rings: rings.iter().map(|ring| contents_of(ring, rings)).collect(),
        symbols,
        strings,
        stacks,
        losses: Losses { counts: losses },
    };
    match contents.write(&path, session.consent()) {
        Ok(()) => Ok(path),
        Err(e) => Err(format!(
            "cannot write the snapshot {}: {e}. Does the folder exist, is it writable, and has it {} MiB free?",
            path.display(),
            rings.iter().map(|r| r.written_bytes().len()).sum::<usize>() >> 20
        )),
    }
}

fn contents_of<'a>(ring: &'a TakenRing, all: &[TakenRing]) -> RingContents<'a> {
    let mut contents = RingContents {
        header: ring.header.clone(),
        anchors: Cow::Borrowed(&ring.anchors),
        open_calls: ring.open_calls(),
        before: Vec::new(),
        slots: ring.written_bytes(),
    };
    if let Some(mut under_way) = ring.under_way() {
        if all.iter().any(|other| other.is_before(ring)) {
            under_way = under_way.beside_ring_before();
        }
        contents.begin_with(&under_way.slots(), under_way.oldest());
    }
    contents
}

/// The snapshots in the folder of this process's name, which is the host's.
fn kept_files(session: &Session, process: &str) -> KeptFiles {
    KeptFiles::new(&session.config.directory, process)
}

/// Removes snapshots that are too old, and what killed writers have left behind.
pub(crate) fn tidy(session: &Session) {
    let files = kept_files(session, &session.host.identity().name);
    files.tidy(&session.config.limits, SystemTime::now());
}

/// How often the program may trigger snapshots from now on; those that earlier processes wrote count.
pub(crate) fn rate(session: &Session, now_ns: u64) -> Rate {
    let interval = session.config.limits.interval;
    let recent = interval.map_or(0, |interval| {
        let files = kept_files(session, &session.host.identity().name);
        files.younger_than(interval * BURST, SystemTime::now())
    });
    Rate::new(interval, recent, now_ns)
}

/// The most bytes of a file with so many bytes of slots: slots that compress well take less.
fn file_bytes(session: &Session, slots: u64) -> u64 {
    /// Room for names, and for all else but rings and stacks.
    const OTHERS: u64 = 256 << 10;
    slots + session.stacks.used_bytes() as u64 + OTHERS
}

/// Fails if the file system has no room for a file that the user names, with this thread's ring.
///
/// # Errors
/// A message for the user.
pub(crate) fn check_free(
    session: &Session,
    path: &Path,
    thread: &TracedThread,
) -> Result<(), String> {
    let bytes = file_bytes(session, thread.trace().written_bytes());
    let folder = path.parent().unwrap_or(path);
    KeptFiles::new(folder, "")
        .check_free(&session.config.limits, bytes)
        .map_err(refused)
}

fn refused(reason: String) -> String {
    format!("no snapshot: {reason}")
}

/// Makes room for a file with all rings, in the configured folder: removes older ones if need be. Returns its path.
///
/// Called before the rings are taken: if there is no room, they stay with their threads, which go on recording. What these
/// record until the rings are taken is not counted: compression takes more off.
///
/// # Errors
/// A message for the user if there is no room, or nothing to write; then nothing was removed.
pub(crate) fn make_room(session: &Session) -> Result<PathBuf, String> {
    let threads = session.registry.threads();
    let recorded: u64 = threads.iter().map(|t| t.trace().written_bytes()).sum();
    let slots = recorded + session.registry.retired_bytes() + session.spool.bytes();
    // A ring that was just exchanged is empty.
    if slots == 0 && !threads.iter().any(|t| t.trace().records()) {
        return Err(NOTHING.into());
    }
    let bytes = file_bytes(session, slots);
    let limits = &session.config.limits;
    let files = kept_files(session, &session.host.identity().name);
    let last = &session.last_file;
    let (name, number) = files.next_name(std::process::id(), last.load(Ordering::Relaxed));
    last.store(number, Ordering::Relaxed);
    let removed = files.make_room(limits, &name, bytes, SystemTime::now());
    let removed = removed.map_err(refused)?;
    if removed != 0 {
        let message = format!("removed {removed} older snapshots");
        session.host.log(Severity::Info, &message);
    }
    Ok(files.path(&name))
}

/// The names of all methods in the rings and in the stacks. Adds the methods without a name to `losses`.
fn symbols(
    session: &Session,
    rings: &[TakenRing],
    stacks: &Stacks,
    losses: &mut Vec<(String, u64)>,
) -> Vec<Symbol> {
    let mut addresses = MethodAddresses::default();
    for ring in rings {
        addresses.add_slots(ring.slots());
        let open = ring.open_calls().into_iter().flat_map(|open| open.methods);
        open.for_each(|method| addresses.add(method));
        if let Some(under_way) = ring.under_way() {
            under_way.add_methods(&mut addresses);
        }
    }
    let nodes = stacks.generations.iter().flat_map(|g| &g.nodes);
    nodes.for_each(|node| addresses.add(node.method));
    let addresses = addresses.sorted();
    let mut symbols: Vec<Symbol> = Vec::with_capacity(addresses.len());
    (session.host).symbolize(&addresses, &mut |symbol| symbols.push(symbol));
    {
        let journal = session.journal();
        journal.add_names(&addresses, &mut symbols);
        if journal.dropped() != 0 {
            losses.push((
                "names of unloaded methods: the journal was full".into(),
                journal.dropped(),
            ));
        }
    }
    // Asked last, so that methods that share an address only since their naming count as well.
    symbols.retain(|symbol| !session.host.is_ambiguous(symbol.address));
    symbols.sort_unstable();
    let named = symbols.chunk_by(|a, b| a.address == b.address).count();
    if named < addresses.len() {
        let unnamed = addresses.len() - named;
        losses.push(("methods without a name".into(), unnamed as u64));
    }
    symbols
}
