// SPDX-License-Identifier: Apache-2.0
//! The library needs panics that unwind. A panic of its own ends tracing and is logged; it ends neither the app nor the system
//! server, because it is caught before it reaches C++. With `panic=abort` it would end them.

#[cfg(panic = "abort")]
compile_error!(
    "hindsight-runtime needs panic=unwind: it catches its panics, so that they do not end the app. Without `-C panic=abort` \
     and `panic = \"abort\"`, cargo builds it so; see docs/rom.md"
);
