// SPDX-License-Identifier: Apache-2.0
//! Asks threads that pass no hook for long, as in a loop without calls, to take their stacks at their next safepoint.

use std::time::{Duration, Instant};

use hindsight_trace_format::catalogue::Category;

use crate::session::Session;

/// While the process hardly runs, the pause becomes this much longer at most.
const LONGEST_PAUSES: u32 = 4;
/// The process hardly runs if it uses less than this part of one processor's time.
const IDLE_PART: u32 = 50;

/// Knows when the threads are to be asked.
pub(crate) struct StackRequests<'a> {
    session: &'a Session,
    next: Instant,
    pauses: u32,
    /// CPU time of the process when the threads were last asked.
    cpu_time: Duration,
}

impl<'a> StackRequests<'a> {
    pub(crate) fn new(session: &'a Session) -> Self {
        StackRequests {
            session,
            next: Instant::now(),
            pauses: 1,
            cpu_time: Duration::ZERO,
        }
    }

    /// Asks the threads if it is time to. Returns the time until the next requests are due; `None` if there are none.
    pub(crate) fn make_if_due(&mut self) -> Option<Duration> {
        let pause = self.session.config.stacks.requests?;
        if self.session.categories() & Category::Stacks.bit() == 0 {
            return None;
        }
        let now = Instant::now();
        if now >= self.next {
            self.pauses = pauses_after(self.pauses, self.used(), pause);
            self.next = now + pause * self.pauses;
            self.make();
        }
        Some(self.next.saturating_duration_since(Instant::now()))
    }

    /// CPU time that the process has used since the last call.
    fn used(&mut self) -> Duration {
        let now = process_cpu_time();
        now.saturating_sub(std::mem::replace(&mut self.cpu_time, now))
    }

    fn make(&self) {
        // Those that have not answered yet are not asked again.
        let mut asked: Vec<_> = (self.session.registry.threads().into_iter())
            .filter(|thread| thread.trace().records() && thread.request_stack())
            .collect();
        asked.sort_by_key(|thread| thread.trace().tid());
        let tids: Vec<u32> = asked.iter().map(|t| t.trace().tid()).collect();
        let mut are_running = vec![0; tids.len()];
        (self.session.host).request_stacks(&tids, &mut are_running);
        for (thread, is_running) in asked.iter().zip(are_running) {
            if is_running == 0 {
                thread.stack_request_done();
            }
        }
    }
}

/// The number of pauses until the next requests, if the process used this CPU time in the last `pauses` of them.
fn pauses_after(pauses: u32, used: Duration, pause: Duration) -> u32 {
    if used < pause * pauses / IDLE_PART {
        (pauses * 2).min(LONGEST_PAUSES)
    } else {
        1
    }
}

fn process_cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writing.
    if unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) } != 0 {
        return Duration::ZERO;
    }
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_longer_while_the_process_hardly_runs() {
        const PAUSE: Duration = Duration::from_millis(10);
        let after = |pauses, us| pauses_after(pauses, Duration::from_micros(us), PAUSE);
        assert_eq!([after(1, 0), after(2, 0), after(4, 0)], [2, 4, 4]);
        assert_eq!([after(1, 199), after(1, 200)], [2, 1]);
        assert_eq!([after(4, 799), after(4, 800)], [4, 1]);
    }
}
