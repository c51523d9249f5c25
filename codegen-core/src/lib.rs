// SPDX-License-Identifier: Apache-2.0
//! The vocabulary of trace points, generic over the instruction set.
//!
//! A specification ([`TracePoint`] or [`StubCall`]) goes into an instruction set's [`Encoder`]; position-independent
//! machine code ([`Code`] or [`StubCode`]) comes out, or an [`EncodeError`] that says which value cannot be encoded.
//!
//! The feature `comparison` adds the forms and options that ART's build never emits.

mod encoder;
mod error;
#[cfg(feature = "comparison")]
mod form;
mod isa;
mod registers;
mod stub_call;
mod trace_point;

pub use encoder::Encoder;
pub use error::EncodeError;
#[cfg(feature = "comparison")]
pub use form::{Counter, Form, MAX_RING_BYTES, MIN_RING_BYTES};
pub use isa::{Isa, Register, RegisterSet};
pub use stub_call::{StubCall, StubCode, StubSite};
pub use trace_point::{Code, Kind, TracePoint};
