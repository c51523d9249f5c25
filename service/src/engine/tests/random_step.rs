// SPDX-License-Identifier: Apache-2.0
//! What happens at random: to processes, the clock, the policy and the service.

use proptest::prelude::*;

use super::support::{MIB, SECOND};
use crate::policy::Level;

/// Places of processes.
pub(super) const SLOTS: usize = 6;
/// Policies, without the version.
pub(super) const POLICIES: [&str; 6] = [
    "[memory]\nbudget-mib = 160\n[limits]\ndevice = 6\nper-uid = 3",
    "[memory]\nbudget-mib = 128\ncall-rings = 1\nuid-share = 90\n[limits]\ndevice = 6\nper-uid = 3",
    "enabled = false\n[limits]\ndevice = 6\nper-uid = 3",
    "[memory]\nbudget-mib = 320\ncall-rings = 5\nrings-per-process = 3\nprocesses = 5\n\
     [reports]\nkilled = \"all\"\nqueue = 2\n[limits]\ndevice = 6\nper-uid = 3",
    "[[record.override]]\npackage = \"com.example.*\"\nconsent = \"signatures\"\nrings = 2\n\
     [[record.override]]\nuid = 10001\nenabled = false\n[limits]\ndevice = 6\nper-uid = 3",
    "[memory]\ncall-rings = 3\n[record]\ncategories = []\n[reports]\nkilled = \"none\"\n\
     [[record.override]]\npackage = \"org.sample\"\nbackground = true\n\
     [limits]\ndevice = 6\nper-uid = 3",
];

/// Something that happens.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A process starts if there is none in this place, and connects if it has no connection.
    Start {
        slot: usize,
        uid: u32,
        kind: u8,
    },
    /// It carries messages out, and answers.
    Work {
        slot: usize,
        messages: u8,
    },
    Foreground {
        slot: usize,
        is_foreground: bool,
    },
    Activities {
        slot: usize,
        are_started: bool,
    },
    Trigger {
        slot: usize,
        severity: usize,
        detector: u8,
    },
    /// It says what is not true.
    LieHeld {
        slot: usize,
        rings: u32,
    },
    LieTaken {
        slot: usize,
        report: u64,
        outcome: u8,
    },
    Farewell {
        slot: usize,
    },
    /// It needs more memory for events, stacks and names.
    Needs {
        slot: usize,
        bytes: u64,
    },
    /// It gets the name of its program, if it has none yet.
    Name {
        slot: usize,
    },
    Lose {
        slot: usize,
    },
    /// It says that it serves a transaction of another one since so long, and the other one finds that slow.
    Serve {
        slot: usize,
        client: usize,
        ns: u64,
    },
    End {
        slot: usize,
        has_crashed: bool,
    },
    Written {
        is_kept: bool,
    },
    Ask {
        slot: usize,
    },
    Pressure {
        level: u8,
    },
    Pass {
        ns: u64,
    },
    Sleep {
        ns: u64,
    },
    Policy {
        number: usize,
    },
    Person {
        level: usize,
    },
    Restart {
        jump: i64,
    },
}

/// Apps of one Android user, and sometimes the system and another user.
fn uids() -> impl Strategy<Value = u32> {
    prop_oneof![6 => 10_000..10_004_u32, 1 => Just(1000), 1 => Just(1_010_001)]
}

pub(super) fn steps() -> impl Strategy<Value = Step> {
    let slot = 0..SLOTS;
    prop_oneof![
        6 => (slot.clone(), uids(), 0..6_u8)
            .prop_map(|(slot, uid, kind)| Step::Start { slot, uid, kind }),
        10 => (slot.clone(), 1..6_u8).prop_map(|(slot, messages)| Step::Work { slot, messages }),
        5 => (slot.clone(), any::<bool>())
            .prop_map(|(slot, is_foreground)| Step::Foreground { slot, is_foreground }),
        2 => (slot.clone(), any::<bool>())
            .prop_map(|(slot, are_started)| Step::Activities { slot, are_started }),
        5 => (slot.clone(), 0..4_usize, 0..3_u8).prop_map(|(slot, severity, detector)| {
            Step::Trigger { slot, severity, detector }
        }),
        1 => (slot.clone(), prop_oneof![0..6_u32, any::<u32>()])
            .prop_map(|(slot, rings)| Step::LieHeld { slot, rings }),
        1 => (slot.clone(), 0..9_u64, 0..3_u8)
            .prop_map(|(slot, report, outcome)| Step::LieTaken { slot, report, outcome }),
        1 => slot.clone().prop_map(|slot| Step::Farewell { slot }),
        4 => (slot.clone(), prop_oneof![0..200 * MIB, any::<u64>()])
            .prop_map(|(slot, bytes)| Step::Needs { slot, bytes }),
        3 => slot.clone().prop_map(|slot| Step::Name { slot }),
        2 => slot.clone().prop_map(|slot| Step::Lose { slot }),
        8 => (slot.clone(), slot.clone(), 0..SECOND)
            .prop_map(|(slot, client, ns)| Step::Serve { slot, client, ns }),
        3 => (slot.clone(), any::<bool>())
            .prop_map(|(slot, has_crashed)| Step::End { slot, has_crashed }),
        5 => any::<bool>().prop_map(|is_kept| Step::Written { is_kept }),
        1 => slot.prop_map(|slot| Step::Ask { slot }),
        1 => (0..3_u8).prop_map(|level| Step::Pressure { level }),
        3 => (0..20 * SECOND).prop_map(|ns| Step::Pass { ns }),
        1 => (0..100 * SECOND).prop_map(|ns| Step::Sleep { ns }),
        1 => (0..POLICIES.len()).prop_map(|number| Step::Policy { number }),
        1 => (0..Level::ALL.len()).prop_map(|level| Step::Person { level }),
        1 => any::<i64>().prop_map(|jump| Step::Restart { jump }),
    ]
}
