// SPDX-License-Identifier: Apache-2.0
//! What may leave the device: which reports, and the bytes of each. docs/upload.md describes both.

mod document;
mod item;
mod permission;
mod sent;
mod sha256;

pub use document::{document, Device};
pub use item::{Item, Kind};
pub use permission::Permission;
pub use sent::{Sent, DEVICE, SENT};
pub use sha256::Sha256;
