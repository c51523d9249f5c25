// SPDX-License-Identifier: Apache-2.0
//! The configurations of processes, by a seed.

use std::path::Path;

use super::dice::Dice;

/// Mode of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// A JIT that compiles early, into a cache that is often full.
    Jit,
    /// The JIT compiles at the first call, and everything can be deoptimized.
    JitAtOnce,
    Interpreter,
}

/// The configuration of one process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) number: u64,
    pub(super) seconds: u64,
    pub(super) mode: Mode,
    /// log2 of the bytes of a ring.
    pub(super) ring: u32,
    /// Whether all threads are traced from their start.
    pub(super) all: bool,
    pub(super) max_rings: u64,
    pub(super) snapshot_at_exit: bool,
    /// Whether the process ends while its threads are at work.
    pub(super) exit_at_work: bool,
    /// Whether threads are stopped by the lock-free protocol.
    pub(super) lock_free: bool,
    /// log2 of the bytes of a ring for events, if all events are recorded.
    pub(super) events: Option<u32>,
    /// Which calls are taken back.
    pub(super) rewind: &'static str,
    pub(super) seed: u64,
}

impl Round {
    /// The round of this number: a function of the seed.
    pub(super) fn new(seed: u64, number: u64, seconds: u64) -> Round {
        let mut dice = Dice::new(seed, number << 8);
        // Each of the first rounds has another mode, so that a short run has all.
        let mode = match number {
            0 => Mode::Jit,
            1 => Mode::Interpreter,
            2 => Mode::JitAtOnce,
            _ => dice.pick(&[Mode::Jit, Mode::Jit, Mode::JitAtOnce, Mode::Interpreter]),
        };
        Round {
            number,
            seconds,
            mode,
            ring: dice.pick(&[12, 12, 13, 14, 16, 18, 20]),
            all: dice.below(4) != 0,
            max_rings: 2 + dice.below(8),
            snapshot_at_exit: dice.below(2) == 0,
            exit_at_work: number % 2 == 1,
            lock_free: dice.below(2) == 0,
            events: None,
            rewind: Dice::new(seed, number << 8 | 2).pick(&["off", "200ns", "2us", "all"]),
            seed,
        }
    }

    /// The same round with events.
    pub(super) fn with_events(self) -> Round {
        let mut dice = Dice::new(self.seed, self.number << 8 | 1);
        Round {
            lock_free: false,
            events: Some(dice.pick(&[12, 13, 16])),
            ..self
        }
    }

    pub(super) fn protocol(&self) -> &'static str {
        if self.lock_free {
            "lock-free"
        } else {
            "checkpoint"
        }
    }

    pub(super) fn configuration(&self, folder: &Path) -> String {
        let folder = folder.display();
        let threads = if self.all {
            "trace=all,max-rings=unlimited".to_owned()
        } else {
            format!("trace=main,max-rings={}", self.max_rings)
        };
        let at_exit = if self.snapshot_at_exit { "yes" } else { "no" };
        let events = match self.events {
            Some(ring) => format!(",events=all,event-ring={ring}"),
            None => String::new(),
        };
        format!(
            "{threads},ring={},dir={folder},socket={folder}/socket,snapshot-at-exit={at_exit},protocol={},rewind={}{events}",
            self.ring,
            self.protocol(),
            self.rewind
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_come_from_the_seed() {
        let text = |seed, number| format!("{:?}", Round::new(seed, number, 6));
        assert_eq!(text(1, 5), text(1, 5));
        let modes: Vec<_> = (0..3).map(|n| Round::new(9, n, 6).mode).collect();
        assert_eq!(modes, [Mode::Jit, Mode::Interpreter, Mode::JitAtOnce]);
    }
}
