// SPDX-License-Identifier: Apache-2.0
//! Writes decoded traces in the formats of other tools; one module per format.
//!
//! ```no_run
//! use hindsight_export::{write_file, Format};
//!
//! let trace = hindsight_decoder::Trace::open("demo.hindsight".as_ref())?;
//! write_file(&trace, Format::Perfetto, "demo.pftrace".as_ref())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod causes;
mod chrome;
mod container;
mod error;
mod extras;
mod firefox;
mod folded;
mod format;
mod json;
mod labels;
mod nanoscope;
mod output;
mod parquet;
mod perfetto;
mod pieces;
mod pprof;
mod speedscope;
mod tables;
mod tree;
mod walk;
mod write;
mod written;

pub use causes::{write_causes, Causes};
pub use error::Error;
pub use format::Format;
pub use perfetto::MAX_DEPTH as PERFETTO_MAX_DEPTH;
pub use tree::MAX_LEVELS;
pub use write::{write, write_file, write_paths};
pub use written::Written;
