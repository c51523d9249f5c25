// SPDX-License-Identifier: Apache-2.0
//! The `.hindsight` file.

mod sections;
pub use sections::*;
