// SPDX-License-Identifier: Apache-2.0
//! Methods that were chosen at run time: their calls are events of rules.

use hindsight_trace_format::protocol::{AppDetector, MAX_SLOW_METHODS};

use super::rules::{AppRules, Measured};

/// The calls of watched methods that a thread is in: when the outermost one of each began, and how deep it is. 0: none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Calls([(u64, u32); MAX_SLOW_METHODS]);

impl Calls {
    /// The thread begins a call of the method with this name's number.
    pub(super) fn begin(&mut self, rules: &AppRules, name: u32, now_ns: u64) {
        let Some(call) = self.of(rules, name) else {
            return;
        };
        if call.1 == 0 {
            call.0 = now_ns;
        }
        call.1 += 1;
    }

    /// The thread ends such a call.
    pub(super) fn end(
        &mut self,
        rules: &AppRules,
        name: u32,
        now_ns: u64,
    ) -> Option<(AppDetector, Measured)> {
        let limit = rules.methods.iter().find(|(number, _)| *number == name)?.1;
        let call = self.of(rules, name)?;
        // It may have begun before the rule.
        call.1 = call.1.checked_sub(1)?;
        let took = now_ns.saturating_sub(call.0);
        let is_slow = call.1 == 0 && limit.ns != 0 && took > limit.ns;
        let limit = limit.ns;
        is_slow.then_some((
            AppDetector::SlowMethod,
            Measured::Method { name, took, limit },
        ))
    }

    fn of(&mut self, rules: &AppRules, name: u32) -> Option<&mut (u64, u32)> {
        let mut numbers = rules.methods.iter();
        let place = numbers.position(|(number, limit)| *number == name && limit.ns != 0)?;
        self.0.get_mut(place)
    }
}
