// SPDX-License-Identifier: Apache-2.0
//! A whole file.

use std::path::Path;

use hindsight_trace_format::container::{Anchor, Losses, ProcessFacts, Reader, Ring};
use rayon::prelude::*;

use crate::methods::Merger;
use crate::scan::unseen_frames_shown;
use crate::thread::{self, Thread};
use crate::{file, Clock, Error, Methods};

/// A decoded trace.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Whose it is, and why it was persisted.
    pub process: ProcessFacts,
    /// The counter and the clocks.
    pub clock: Clock,
    /// The methods that were called.
    pub methods: Methods,
    /// The threads, in the order of the file.
    pub threads: Vec<Thread>,
    /// What the writer of the file said it lost.
    pub losses: Losses,
    /// Size of the file, bytes.
    pub file_bytes: u64,
}

impl Trace {
    /// Decodes the `.hindsight` file at `path`, its threads in parallel.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let (file, size) = file::open(path)?;
        if size == 0 {
            // An empty file cannot be mapped.
            return Self::decode(path, &[]);
        }
        // SAFETY: `.hindsight` files are never written under their final names, only renamed to them,
        // so nobody truncates or changes one while it is mapped. Whoever does it all the same gets
        // SIGBUS or wrong bytes here; the bytes are checked like any input.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(|source| Error::Open {
            path: path.to_owned(),
            source,
        })?;
        Self::decode(path, &map)
    }

    /// Decodes the bytes of a `.hindsight` file; `path` is what errors call it.
    pub fn decode(path: &Path, bytes: &[u8]) -> Result<Self, Error> {
        let format = |source| Error::Format {
            path: path.to_owned(),
            source,
        };
        let reader = Reader::new(bytes).map_err(format)?;
        let clock =
            Clock::new(&reader.clocks().map_err(format)?).map_err(|what| Error::Clocks {
                path: path.to_owned(),
                what,
            })?;
        let process = reader.process().map_err(format)?;
        let symbols = reader.symbol_table().map_err(format)?;
        let losses = reader.losses().map_err(format)?;
        let indices: Vec<u32> = reader.ring_indices().collect();
        let unseen_frames_shown = unseen_frames_shown(indices.len());

        // Checksums are verified on the way, so they are computed in parallel too.
        let threads = indices
            .into_par_iter()
            .filter_map(|index| {
                let read = || -> Result<Option<(Ring<'_>, Vec<Anchor>)>, _> {
                    let Some(ring) = reader.ring(index)? else {
                        return Ok(None);
                    };
                    Ok(Some((ring, reader.anchors(index)?)))
                };
                match read() {
                    Ok(Some((ring, anchors))) => Some(Ok(thread::decode(
                        &ring,
                        &anchors,
                        &clock,
                        symbols.as_ref(),
                        unseen_frames_shown,
                    ))),
                    Ok(None) => None,
                    Err(e) => Some(Err(format(e))),
                }
            })
            .collect::<Result<Vec<_>, _>>()?;

        let mut merger = Merger::default();
        let ids: Vec<_> = threads
            .iter()
            .map(|t| merger.merge(&t.methods, symbols.as_ref()))
            .collect();
        let threads = threads
            .into_par_iter()
            .zip(ids)
            .map(|(thread, ids)| thread.finish(&ids))
            .collect();
        Ok(Trace {
            process,
            clock,
            methods: merger.finish(),
            threads,
            losses,
            file_bytes: bytes.len() as u64,
        })
    }

    /// The process's main thread, if its ring is in the file.
    pub fn main_thread(&self) -> Option<&Thread> {
        let of_process = self.threads.iter().find(|t| t.tid == self.process.pid);
        of_process.or_else(|| self.threads.iter().find(|t| t.name == "main"))
    }

    /// CLOCK_BOOTTIME of the oldest event of any thread, ns.
    pub fn start_ns(&self) -> u64 {
        self.threads
            .iter()
            .map(|t| t.start_ns)
            .min()
            .unwrap_or(self.end_ns())
    }

    /// CLOCK_BOOTTIME when the last ring was taken, ns.
    pub fn end_ns(&self) -> u64 {
        let last = self.threads.iter().map(|t| t.end_ns).max();
        last.unwrap_or(self.clock.reference().boottime_ns)
    }
}
