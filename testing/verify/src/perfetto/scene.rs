// SPDX-License-Identifier: Apache-2.0
//! The ways in which a trace is taken.

/// Calls in a ring of 16 MiB that is full of short calls, at least: two slots of 8 bytes each.
pub(super) const FULL_RING_CALLS: u64 = 1_000_000;

/// How a trace is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scene {
    /// A report of hindsightd activates the trigger that stops the session.
    OurTrigger,
    /// A trigger of another program stops it.
    OtherTrigger,
    /// The session is cloned, and goes on.
    Clone,
    /// Its periodic flushes write nothing; it is stopped by command.
    Stop,
    /// The data source was killed and started again in mid-session; then as `Stop`.
    SourceKilled,
    /// So was hindsightd.
    ServiceKilled,
    /// traced was killed before the session.
    TracedKilled,
    /// A buffer that is much too small, and a setting that does not exist.
    FullBuffer,
    /// A ring of 16 MiB that is full.
    FullRing,
    /// The same, and traced waits for less time than writing it takes.
    LateStop,
}

pub(super) const SCENES: [Scene; 10] = [
    Scene::OurTrigger,
    Scene::OtherTrigger,
    Scene::Clone,
    Scene::Stop,
    Scene::FullRing,
    Scene::LateStop,
    Scene::SourceKilled,
    Scene::ServiceKilled,
    Scene::TracedKilled,
    Scene::FullBuffer,
];
