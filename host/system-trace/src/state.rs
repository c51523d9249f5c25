// SPDX-License-Identifier: Apache-2.0
//! What a thread does, as the scheduler has it.

/// What a thread does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum State {
    /// It is on a processor.
    Running,
    /// It could run, and has no processor.
    Runnable,
    /// It waits, and a signal would end that: for a futex, a socket, a timer, another process.
    Sleeping,
    /// It waits for a disk, and no signal ends that.
    Io,
    /// It waits in the kernel for something else than a disk, and no signal ends that.
    Blocked,
    /// It waits in the kernel, no signal ends that, and it is not recorded whether for a disk.
    Uninterruptible,
    /// It is stopped, as by a debugger.
    Stopped,
    /// It has ended.
    Ended,
    /// It is not recorded.
    #[default]
    Unknown,
}

impl State {
    /// All states.
    pub const ALL: [State; 9] = [
        State::Running,
        State::Runnable,
        State::Sleeping,
        State::Io,
        State::Blocked,
        State::Uninterruptible,
        State::Stopped,
        State::Ended,
        State::Unknown,
    ];

    /// Of the state that `sched_switch` has for the thread that leaves the processor. The numbers of the lowest bits are the
    /// same in all kernels; higher ones alone say that the processor was taken from it, or that it is idle.
    pub(crate) const fn of_kernel(state: i64) -> State {
        const INTERRUPTIBLE: i64 = 0x01;
        const UNINTERRUPTIBLE: i64 = 0x02;
        const STOPPED_OR_TRACED: i64 = 0x04 | 0x08;
        const DEAD: i64 = 0x10 | 0x20;
        /// `TASK_PARKED` and `TASK_REPORT_IDLE`, of threads of the kernel, since Linux 4.14.
        const PARKED_OR_IDLE: i64 = 0x40 | 0x80;
        if state & DEAD != 0 {
            State::Ended
        } else if state & UNINTERRUPTIBLE != 0 {
            State::Uninterruptible
        } else if state & INTERRUPTIBLE != 0 {
            State::Sleeping
        } else if state & STOPPED_OR_TRACED != 0 {
            State::Stopped
        } else if state & PARKED_OR_IDLE != 0 {
            State::Sleeping
        } else {
            State::Runnable
        }
    }

    pub(crate) const fn of_number(number: u8) -> State {
        match number {
            0 => State::Running,
            1 => State::Runnable,
            2 => State::Sleeping,
            3 => State::Io,
            4 => State::Blocked,
            5 => State::Uninterruptible,
            6 => State::Stopped,
            7 => State::Ended,
            _ => State::Unknown,
        }
    }

    /// Whether the thread waits.
    pub const fn is_wait(self) -> bool {
        matches!(
            self,
            State::Sleeping | State::Io | State::Blocked | State::Uninterruptible
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_the_kernel_are_told_apart() {
        for (kernel, state) in [
            (0, State::Runnable),
            (0x100, State::Runnable),
            (0x400, State::Runnable),
            (1, State::Sleeping),
            (0x80, State::Sleeping),
            (2, State::Uninterruptible),
            (0x82, State::Uninterruptible),
            (4, State::Stopped),
            (0x10, State::Ended),
            (0x20, State::Ended),
        ] {
            assert_eq!(State::of_kernel(kernel), state, "{kernel:#x}");
        }
    }

    #[test]
    fn numbers_stand_for_their_states() {
        for state in State::ALL {
            assert_eq!(State::of_number(state as u8), state);
        }
        assert_eq!(State::of_number(200), State::Unknown);
    }
}
