// SPDX-License-Identifier: Apache-2.0
//! By which numbers epoll tells what is ready.

/// Tokens have what it is in their upper byte, and its number in the rest.
pub(super) const KIND_SHIFT: u32 = 56;
pub(super) const KIND_SOCKET: u64 = 1;
pub(super) const KIND_PROCESS: u64 = 2;
pub(super) const KIND_CLIENT: u64 = 3;
pub(super) const LISTENER: u64 = 1;
pub(super) const COMMANDS: u64 = 2;
pub(super) const TIMER: u64 = 3;
pub(super) const DISK: u64 = 4;
pub(super) const SIGNALS: u64 = 5;
pub(super) const SOME: u64 = 6;
pub(super) const FULL: u64 = 7;
pub(super) const UPLOADS: u64 = 8;

pub(super) fn client_token(client: u64) -> u64 {
    KIND_CLIENT << KIND_SHIFT | client
}
