// SPDX-License-Identifier: Apache-2.0
//! The detectors of traced processes: their names, parameters and limits, as policy files, messages and processes have them.

use crate::container::codec::{Decoder, Encoder};
use crate::container::DecodeError;

use super::severity::TriggerSeverity;

/// The most rules that a process reads; more are not looked at.
pub const MAX_DETECTOR_RULES: usize = 32;
/// The most numbers of a rule that are read.
pub const MAX_DETECTOR_NUMBERS: usize = 8;
/// The most methods of a process that [`AppDetector::SlowMethod`] watches.
pub const MAX_SLOW_METHODS: usize = 8;
/// Longest method of a rule, bytes.
pub const MAX_METHOD_BYTES: usize = 200;
/// Longest name of a detector that is read, bytes.
const MAX_NAME_BYTES: usize = 64;

/// A detector that runs in a traced process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AppDetector {
    /// A message of the main thread took too long.
    SlowMessage,
    /// A message of the main thread does not end.
    StuckMessage,
    /// Several frames in a row were late.
    LateFrames,
    /// The answer to a touch or key took too long.
    SlowInput,
    /// It took too long from the process's start to its first frame.
    SlowStart,
    /// The main thread waited too long for a lock.
    LongLockWait,
    /// The main thread waited too long for another process.
    LongBinderWait,
    /// Garbage collections stopped the main thread for too much of the time.
    GcPressure,
    /// The system asks for the stacks of a process whose main thread is busy (SIGQUIT).
    Anr,
    /// An exception that nothing caught.
    UncaughtException,
    /// A signal that ends the process, such as SIGSEGV.
    NativeCrash,
    /// A method that was chosen at run time took too long.
    SlowMethod,
}

/// A parameter of a detector: a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its key in policy files; ends in its unit.
    pub key: &'static str,
    /// The value without a rule.
    pub default: u64,
    /// The least and the greatest value.
    pub range: (u64, u64),
}

/// What is fixed about a detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetectorSpec {
    /// The detector.
    pub detector: AppDetector,
    /// Its name in policy files, messages and reports.
    pub name: &'static str,
    /// How bad it is what it finds.
    pub severity: TriggerSeverity,
    /// Its parameters. Their order is part of the protocol: new ones come last.
    pub parameters: &'static [Parameter],
}

const fn parameter(key: &'static str, default: u64, least: u64, most: u64) -> Parameter {
    Parameter {
        key,
        default,
        range: (least, most),
    }
}

const QUIET: Parameter = parameter("quiet-seconds", 10, 0, 86_400);

/// The name of a rule that is for no detector of processes: it asks for the counters in the shared memory, which a process keeps while
/// any rule is in force. The service's own detectors need them.
pub const COUNTERS_RULE: &str = "counters";

/// All detectors.
pub const DETECTORS: &[DetectorSpec] = &[
    DetectorSpec {
        detector: AppDetector::SlowMessage,
        name: "slow-message",
        severity: TriggerSeverity::Slow,
        parameters: &[parameter("limit-ms", 400, 1, 600_000), QUIET],
    },
    DetectorSpec {
        detector: AppDetector::StuckMessage,
        name: "stuck-message",
        severity: TriggerSeverity::Stuck,
        parameters: &[parameter("limit-ms", 1200, 1, 600_000), QUIET],
    },
    DetectorSpec {
        detector: AppDetector::LateFrames,
        name: "late-frames",
        severity: TriggerSeverity::Slow,
        parameters: &[
            parameter("limit-ms", 34, 1, 10_000),
            QUIET,
            parameter("frames", 5, 1, 1000),
        ],
    },
    DetectorSpec {
        detector: AppDetector::SlowInput,
        name: "slow-input",
        severity: TriggerSeverity::Slow,
        parameters: &[parameter("limit-ms", 400, 1, 600_000), QUIET],
    },
    DetectorSpec {
        detector: AppDetector::SlowStart,
        name: "slow-start",
        severity: TriggerSeverity::Slow,
        parameters: &[
            parameter("limit-ms", 3000, 1, 600_000),
            QUIET,
            parameter("most-ms", 20_000, 1, 600_000),
        ],
    },
    DetectorSpec {
        detector: AppDetector::LongLockWait,
        name: "long-lock-wait",
        severity: TriggerSeverity::Slow,
        parameters: &[parameter("limit-ms", 500, 1, 600_000), QUIET],
    },
    DetectorSpec {
        detector: AppDetector::LongBinderWait,
        name: "long-binder-wait",
        severity: TriggerSeverity::Slow,
        parameters: &[parameter("limit-ms", 1000, 1, 600_000), QUIET],
    },
    DetectorSpec {
        detector: AppDetector::GcPressure,
        name: "gc-pressure",
        severity: TriggerSeverity::Slow,
        parameters: &[
            parameter("stopped-ms", 1000, 1, 60_000),
            QUIET,
            parameter("window-seconds", 10, 1, 60),
            parameter("collections", 0, 0, 100_000),
        ],
    },
    DetectorSpec {
        detector: AppDetector::Anr,
        name: "anr",
        severity: TriggerSeverity::Stuck,
        parameters: &[parameter("busy-ms", 1000, 0, 600_000), QUIET],
    },
    DetectorSpec {
        detector: AppDetector::UncaughtException,
        name: "uncaught-exception",
        severity: TriggerSeverity::Fatal,
        parameters: &[],
    },
    DetectorSpec {
        detector: AppDetector::NativeCrash,
        name: "native-crash",
        severity: TriggerSeverity::Fatal,
        parameters: &[],
    },
    DetectorSpec {
        detector: AppDetector::SlowMethod,
        name: "slow-method",
        severity: TriggerSeverity::Slow,
        parameters: &[parameter("limit-ms", 400, 1, 600_000), QUIET],
    },
];

impl AppDetector {
    /// What is fixed about it.
    pub fn spec(self) -> &'static DetectorSpec {
        let found = DETECTORS.iter().find(|spec| spec.detector == self);
        // Each detector is in the table: a test checks it.
        found.unwrap_or(&DETECTORS[0])
    }

    /// The detector with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        let found = DETECTORS.iter().find(|spec| spec.name == name);
        found.map(|spec| spec.detector)
    }
}

impl DetectorSpec {
    /// The numbers without a rule, in the order of the parameters.
    pub fn defaults(&self) -> Vec<u64> {
        self.parameters.iter().map(|p| p.default).collect()
    }
}

/// A detector that is on, and its parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DetectorRule {
    /// Its name; readers ignore rules of detectors that they do not know.
    pub name: String,
    /// Its parameters, in the order of [`DetectorSpec::parameters`]. What is missing has its default; what a reader does not know
    /// is ignored.
    pub numbers: Vec<u64>,
    /// The method that it watches, `com.example.Store.load`; empty for detectors that watch none.
    pub method: String,
}

impl DetectorRule {
    /// The value of a parameter by its place, within its range; 0 if there is none.
    pub fn number(&self, spec: &DetectorSpec, place: usize) -> u64 {
        let Some(parameter) = spec.parameters.get(place) else {
            return 0;
        };
        let number = self.numbers.get(place).copied();
        let (least, most) = parameter.range;
        number.unwrap_or(parameter.default).clamp(least, most)
    }
}

/// The detectors that are on in a process from now on; all others are off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DetectorRules {
    /// Grows with each change.
    pub revision: u64,
    /// The rules.
    pub rules: Vec<DetectorRule>,
}

impl DetectorRules {
    pub(super) fn encode(&self, e: &mut Encoder) {
        e.u64(self.revision);
        let rules = &self.rules[..self.rules.len().min(MAX_DETECTOR_RULES)];
        e.u32(rules.len() as u32);
        for rule in rules {
            e.string(cut(&rule.name, MAX_NAME_BYTES));
            let numbers = &rule.numbers[..rule.numbers.len().min(MAX_DETECTOR_NUMBERS)];
            e.u32(numbers.len() as u32);
            numbers.iter().for_each(|number| e.u64(*number));
            e.string(cut(&rule.method, MAX_METHOD_BYTES));
        }
    }

    pub(super) fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let revision = d.u64("revision")?;
        let count = d.u32("the number of rules")? as usize;
        if count > MAX_DETECTOR_RULES {
            return Err(d.error(format!(
                "{count} rules; at most {MAX_DETECTOR_RULES} are allowed"
            )));
        }
        let mut rules = Vec::new();
        for _ in 0..count {
            let name = short_text(d, "detector", MAX_NAME_BYTES)?;
            let numbers = d.u32("the number of parameters")? as usize;
            if numbers > MAX_DETECTOR_NUMBERS {
                return Err(d.error(format!(
                    "{numbers} parameters; at most {MAX_DETECTOR_NUMBERS} are allowed"
                )));
            }
            let numbers = (0..numbers)
                .map(|_| d.u64("parameter"))
                .collect::<Result<_, _>>()?;
            let method = short_text(d, "method", MAX_METHOD_BYTES)?;
            rules.push(DetectorRule {
                name,
                numbers,
                method,
            });
        }
        Ok(DetectorRules { revision, rules })
    }
}

fn short_text(d: &mut Decoder<'_>, field: &str, most: usize) -> Result<String, DecodeError> {
    let text = d.str(field)?;
    if text.len() > most {
        let long = text.len();
        return Err(d.error(format!(
            "{field} has {long} bytes; at most {most} are allowed"
        )));
    }
    Ok(text.to_owned())
}

/// The beginning of a text, up to this number of bytes.
fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{FromService, MAX_MESSAGE_BYTES};

    #[test]
    fn the_table_is_complete_and_its_defaults_are_allowed() {
        for (at, spec) in DETECTORS.iter().enumerate() {
            assert_eq!(spec.detector as usize, at, "{}", spec.name);
            assert_eq!(spec.detector.spec(), spec);
            assert_eq!(AppDetector::from_name(spec.name), Some(spec.detector));
            assert!(spec.parameters.len() <= MAX_DETECTOR_NUMBERS);
            for parameter in spec.parameters {
                let (least, most) = parameter.range;
                assert!((least..=most).contains(&parameter.default), "{parameter:?}");
            }
        }
        assert_eq!(DETECTORS.len(), AppDetector::SlowMethod as usize + 1);
    }

    fn largest() -> FromService {
        let rule = |name: &str, numbers: usize, method: &str| DetectorRule {
            name: name.into(),
            numbers: vec![u64::MAX; numbers],
            method: method.into(),
        };
        let mut rules: Vec<DetectorRule> = (DETECTORS.iter())
            .filter(|spec| spec.detector != AppDetector::SlowMethod)
            .map(|spec| rule(spec.name, spec.parameters.len(), ""))
            .collect();
        let method = "m".repeat(MAX_METHOD_BYTES);
        rules.extend((0..MAX_SLOW_METHODS).map(|_| rule("slow-method", 2, &method)));
        FromService::Detectors(DetectorRules { revision: 1, rules })
    }

    #[test]
    fn all_rules_of_a_policy_fit_into_a_message() {
        let message = largest();
        let packet = message.encode();
        assert!(packet.len() <= MAX_MESSAGE_BYTES, "{}", packet.len());
        assert_eq!(FromService::decode(&packet), Ok(Some(message)));
    }

    #[test]
    fn lengths_of_a_hostile_message_are_refused() {
        let mut packet = largest().encode();
        for (at, count) in [(12, MAX_DETECTOR_RULES as u32 + 1), (16, 65)] {
            let before: [u8; 4] = packet[at..at + 4].try_into().unwrap();
            packet[at..at + 4].copy_from_slice(&count.to_le_bytes());
            assert!(FromService::decode(&packet).is_err(), "{count} at {at}");
            packet[at..at + 4].copy_from_slice(&before);
        }
        assert!(FromService::decode(&packet).is_ok());
    }

    #[test]
    fn numbers_of_another_build_have_defaults_and_ranges() {
        let spec = AppDetector::LateFrames.spec();
        let rule = DetectorRule {
            numbers: vec![0],
            ..DetectorRule::default()
        };
        let numbers: Vec<u64> = (0..4).map(|place| rule.number(spec, place)).collect();
        assert_eq!(numbers, [1, 10, 5, 0]);
    }
}
