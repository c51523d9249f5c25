// SPDX-License-Identifier: Apache-2.0
//! What the emitters of trace points share: the forms that a trace point can have, and how registers and
//! sets of them are written down.

mod form;
mod registers;

pub use form::{Form, MAX_RING_BYTES, MIN_RING_BYTES};
