// SPDX-License-Identifier: Apache-2.0
//! The one definition of what Hindsight records: 8-byte slots, the ring they live in, and the
//! `.hindsight` file that holds rings. Emitters, runtime and decoder all use these constants; no tag or shift is
//! written anywhere else.
//!
//! ```
//! use hindsight_trace_format::slot::{Event, Slot};
//!
//! // The slot that the entry of the method at 0x7000_1000 stores at counter 0x1_0000_0042:
//! let slot = Slot::entry(0x7000_1000, 0x1_0000_0042);
//! assert_eq!(slot.counter(), 0x42);
//! assert_eq!(slot.event(), Event::Entry { method: 0x7000_1000 });
//! ```
#![cfg_attr(not(feature = "std"), no_std)]

pub mod catalogue;
#[cfg(feature = "std")]
pub mod container;
pub mod library_rules;
#[cfg(feature = "std")]
pub mod methods;
#[cfg(feature = "std")]
pub mod protocol;
pub mod reverse;
pub mod ring;
#[cfg(feature = "std")]
pub mod shared;
pub mod slot;
