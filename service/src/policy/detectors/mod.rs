// SPDX-License-Identifier: Apache-2.0
//! The rules of detectors.

mod metric;
mod parse;

use hindsight_trace_format::protocol::{
    AppDetector, DetectorRule, DetectorSpec, Parameter, TriggerSeverity, DETECTORS,
    MAX_SLOW_METHODS,
};

use super::selector::Selector;

pub use metric::Metric;
pub(super) use parse::parse;

/// A detector of the service with parameters of its own; correlated metrics have rules of another shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServiceDetector {
    /// The device is hot.
    Thermal,
    /// A counter of a process left the range that it had before.
    Outlier,
}

/// What is fixed about a detector of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceSpec {
    /// The detector.
    pub detector: ServiceDetector,
    /// Its name in policy files and reports.
    pub name: &'static str,
    /// Whether it is on without a rule.
    pub enabled: bool,
    /// Its parameters.
    pub parameters: &'static [Parameter],
}

const fn parameter(key: &'static str, default: u64, least: u64, most: u64) -> Parameter {
    Parameter {
        key,
        default,
        range: (least, most),
    }
}

/// All detectors of the service with parameters of their own.
pub const SERVICE_DETECTORS: &[ServiceSpec] = &[
    ServiceSpec {
        detector: ServiceDetector::Thermal,
        name: "thermal",
        enabled: true,
        parameters: &[
            parameter("celsius", 95, 20, 200),
            parameter("for-seconds", 10, 1, 3600),
            parameter("quiet-seconds", 3600, 0, 86_400),
        ],
    },
    ServiceSpec {
        detector: ServiceDetector::Outlier,
        name: "outlier",
        enabled: false,
        parameters: &[
            parameter("score", 10, 3, 1000),
            parameter("for-seconds", 5, 1, 60),
            parameter("warm-up-seconds", 60, 10, 600),
            parameter("quiet-seconds", 3600, 0, 86_400),
        ],
    },
];

/// The detector of correlated metrics.
pub const CORRELATED: &str = "correlated";

/// A detector that can be switched, and its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Whether it is on.
    pub enabled: bool,
    /// Its parameters, in the order of the table that has it.
    pub numbers: Vec<u64>,
}

/// A method that is watched in some processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowMethod {
    /// Which processes.
    pub of: Selector,
    /// The method, `com.example.Store.load`.
    pub method: String,
    /// Its parameters, in the order of [`AppDetector::SlowMethod`]'s table.
    pub numbers: Vec<u64>,
}

/// A condition of a rule over several metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The metric.
    pub metric: Metric,
    /// The condition is met while the metric is greater than this, in the metric's unit.
    pub over: u64,
    /// The condition holds once it was met for so long, ns.
    pub for_ns: u64,
}

/// A rule over several metrics: it fires when all conditions hold at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correlated {
    /// Its name in reports: small letters, digits and dashes.
    pub name: String,
    /// The conditions.
    pub all: Vec<Condition>,
    /// So long after it has fired it does not fire again for the same process, ns.
    pub quiet_ns: u64,
}

/// The rules of all detectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detectors {
    /// Detectors in processes, in the order of [`DETECTORS`].
    apps: Vec<Rule>,
    /// Detectors of the service, in the order of [`SERVICE_DETECTORS`].
    service: Vec<Rule>,
    /// Methods that are watched.
    pub slow_methods: Vec<SlowMethod>,
    /// Rules over several metrics.
    pub correlated: Vec<Correlated>,
}

impl Default for Detectors {
    fn default() -> Self {
        let numbers = |parameters: &[Parameter]| parameters.iter().map(|p| p.default).collect();
        Detectors {
            apps: DETECTORS
                .iter()
                .map(|spec| Rule {
                    enabled: true,
                    numbers: spec.defaults(),
                })
                .collect(),
            service: SERVICE_DETECTORS
                .iter()
                .map(|spec| Rule {
                    enabled: spec.enabled,
                    numbers: numbers(spec.parameters),
                })
                .collect(),
            slow_methods: Vec::new(),
            correlated: Vec::new(),
        }
    }
}

impl Detectors {
    /// The rule of a detector of the service.
    pub fn service(&self, detector: ServiceDetector) -> Option<&Rule> {
        self.service
            .get(detector as usize)
            .filter(|rule| rule.enabled)
    }

    /// Whether the service may act on what this detector of a process finds. A name that is no detector's counts: it
    /// is `program` or `other`.
    pub fn is_on(&self, name: &str) -> bool {
        let known = AppDetector::from_name(name);
        known.is_none_or(|detector| self.apps[detector as usize].enabled)
    }

    /// Whether anything needs counters or facts of the system. A device that tells no temperature has none for `thermal`.
    pub fn needs_facts(&self, has_temperature: bool) -> bool {
        let is_of_use = |detector| has_temperature || detector != ServiceDetector::Thermal as usize;
        let mut rules = self.service.iter().enumerate();
        !self.correlated.is_empty() || rules.any(|(at, rule)| rule.enabled && is_of_use(at))
    }

    /// The rules for a process with this user id and name.
    pub fn of_process(&self, uid: u32, name: &str) -> Vec<DetectorRule> {
        let plain = DETECTORS.iter().zip(&self.apps);
        let plain =
            plain.filter(|(spec, rule)| rule.enabled && spec.detector != AppDetector::SlowMethod);
        let of = |spec: &DetectorSpec, numbers: &[u64], method: &str| DetectorRule {
            name: spec.name.into(),
            numbers: numbers.to_vec(),
            method: method.into(),
        };
        let mut rules: Vec<DetectorRule> = plain
            .map(|(spec, rule)| of(spec, &rule.numbers, ""))
            .collect();
        let methods = self.methods_of(uid, name).take(MAX_SLOW_METHODS);
        let spec = AppDetector::SlowMethod.spec();
        rules.extend(methods.map(|watched| of(spec, &watched.numbers, &watched.method)));
        rules
    }

    /// Whether methods of the process are watched, for which it must follow rules.
    pub fn watches_methods(&self, uid: u32, name: &str) -> bool {
        self.methods_of(uid, name).next().is_some()
    }

    fn methods_of<'a>(&'a self, uid: u32, name: &'a str) -> impl Iterator<Item = &'a SlowMethod> {
        let all = self.slow_methods.iter();
        all.filter(move |watched| watched.of.matches(uid, name))
    }
}

/// How bad it is what a detector of the service finds.
pub const SERVICE_SEVERITY: TriggerSeverity = TriggerSeverity::Slow;
