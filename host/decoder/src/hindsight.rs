// SPDX-License-Identifier: Apache-2.0
//! From the bytes of a `.hindsight` file to a trace.

use std::path::Path;

use hindsight_trace_format::container::{Anchor, Reader, Ring};
use rayon::prelude::*;

use crate::clock::Clock;
use crate::error::Error;
use crate::key::ThreadKey;
use crate::methods::Merger;
use crate::model::Trace;
use crate::ring;
use crate::scan::unseen_frames_shown;

/// Decodes a file, its rings in parallel; `path` is its name in errors.
pub(crate) fn decode(path: &Path, bytes: &[u8], _strict: bool) -> Result<Trace, Error> {
    let format = |source| Error::Format {
        path: path.to_owned(),
        source,
    };
    let reader = Reader::new(bytes).map_err(format)?;
    let clock = Clock::new(&reader.clocks().map_err(format)?).map_err(|what| Error::Clocks {
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
            let key = ThreadKey {
                process: 0,
                ring: index,
            };
            match read() {
                Ok(Some((ring, anchors))) => Some(Ok(ring::decode(
                    key,
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
        damaged: Vec::new(),
        file_bytes: bytes.len() as u64,
    })
}
