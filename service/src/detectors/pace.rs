// SPDX-License-Identifier: Apache-2.0
//! When facts are read next.

const SECOND_NS: u64 = 1_000_000_000;
/// The longest pause while the user sees a traced process that does nothing, ns.
const LONGEST_NS: u64 = 64 * SECOND_NS;

/// When facts are read: once a second while something happens, less and less often otherwise, and never while no traced process is
/// seen.
#[derive(Debug, Default)]
pub struct Pace {
    /// The next look, and the pause before it, ns; `None`: there is nothing to look at.
    next: Option<(u64, u64)>,
}

impl Pace {
    /// The next look, `CLOCK_BOOTTIME`, ns; `None`: there will be none unless something happens.
    pub fn deadline(&self) -> Option<u64> {
        self.next.map(|(at, _)| at)
    }

    /// Whether it is time.
    pub fn is_due(&self, now_ns: u64) -> bool {
        self.deadline().is_some_and(|at| at <= now_ns)
    }

    /// There is something to look at, or not any more.
    pub fn set(&mut self, now_ns: u64, has_any: bool) {
        match (has_any, self.next) {
            (false, _) => self.next = None,
            (true, None) => self.again(now_ns, SECOND_NS),
            (true, Some(_)) => {}
        }
    }

    /// A look is over: whether any process did anything since the one before.
    pub fn looked(&mut self, now_ns: u64, is_active: bool) {
        let pause = match (is_active, self.next) {
            (false, Some((_, pause))) => (2 * pause).min(LONGEST_NS),
            _ => SECOND_NS,
        };
        self.again(now_ns, pause);
    }

    /// A process said something: it is awake.
    pub fn woken(&mut self, now_ns: u64) {
        if self.next.is_some_and(|(_, pause)| pause > SECOND_NS) {
            self.again(now_ns, SECOND_NS);
        }
    }

    fn again(&mut self, now_ns: u64, pause: u64) {
        self.next = Some((now_ns.saturating_add(pause), pause));
    }
}
