// SPDX-License-Identifier: Apache-2.0
//! The policy's file.

use hindsight_trace_format::protocol::TriggerSeverity;
use serde::de::IgnoredAny;
use serde::Deserialize;
use toml::de::DeTable;
use toml::Spanned;

use super::consent::{ConsentRules, Level, Model, OfUser, RegionRule, UserType};
use super::detectors;
use super::error::PolicyError;
use super::model::{
    Killed, Limits, Memory, Override, Policy, Record, Reports, Select, Uploads, HOUR_NS,
    MAX_LOG_KIB, MAX_PROCESSES, MAX_PROCESSES_PER_UID, MAX_QUEUE,
};
use super::selector::{Package, Selector};
use super::signature::{signatures, SignatureFile};
use super::value::{bits, Bits, Named, Number, Region};

/// The version of policy files that this build reads.
pub const POLICY_VERSION: u64 = 1;
/// Longest policy file, bytes.
pub const MAX_POLICY_BYTES: usize = 256 << 10;
/// The built-in policy, with all keys and their values.
pub const DEFAULT_TEXT: &str = include_str!("default.toml");

const MAX_OVERRIDES: usize = 1000;
const MIB: u64 = 1 << 20;
const SECOND_NS: u64 = 1_000_000_000;

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct MemoryFile {
    budget_mib: Option<Number<16, 65536>>,
    ring_share: Option<Number<10, 90>>,
    uid_share: Option<Number<1, 100>>,
    call_rings: Option<Number<0, 256>>,
    rings_per_process: Option<Number<0, 256>>,
    processes: Option<Number<1, MAX_PROCESSES>>,
    processes_per_uid: Option<Number<1, MAX_PROCESSES_PER_UID>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct OverrideFile {
    package: Option<Named<Package>>,
    uid: Option<Number<0, 0xffff_fffe>>,
    app_id: Option<Number<0, 99_999>>,
    enabled: Option<bool>,
    categories: Option<Vec<Named<Bits>>>,
    rings: Option<Number<0, 256>>,
    background: Option<bool>,
    consent: Option<Named<Level>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct RecordFile {
    categories: Option<Vec<Named<Bits>>>,
    r#override: Vec<Spanned<OverrideFile>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct ReportsFile {
    killed: Option<Named<Killed>>,
    grace_seconds: Option<Number<0, 3600>>,
    killed_seconds: Option<Number<0, 3600>>,
    memory_percent: Option<Number<0, 100>>,
    severities: Option<Vec<Named<TriggerSeverity>>>,
    queue: Option<Number<1, MAX_QUEUE>>,
    log_kib: Option<Number<0, MAX_LOG_KIB>>,
    peers: Option<Number<0, 8>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct LimitsFile {
    window_hours: Option<Number<1, 8760>>,
    device: Option<Number<0, 5000>>,
    per_uid: Option<Number<0, 5000>>,
    per_detector: Option<Number<0, 5000>>,
    device_per_detector: Option<Number<0, 5000>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SelectFile {
    First,
    Severe,
    Campaign,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct UploadsFile {
    window_hours: Option<Number<1, 8760>>,
    device: Option<Number<0, 1000>>,
    select: Option<Spanned<SelectFile>>,
    campaign: Option<Spanned<Vec<Named<Package>>>>,
    signature: Vec<Spanned<SignatureFile>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct OfUserFile {
    most: Option<Named<Level>>,
    unasked: Option<Named<Level>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RegionFile {
    regions: Option<Vec<Named<Region>>>,
    models: Option<Vec<Named<Model>>>,
    user: Option<Named<UserType>>,
    most: Named<Level>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct ConsentFile {
    internal: OfUserFile,
    beta: OfUserFile,
    end_user: OfUserFile,
    region: Vec<Spanned<RegionFile>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct PolicyFile {
    #[serde(rename = "version")]
    _version: Option<Number<1, 1>>,
    revision: Option<Number<0, { i64::MAX as u64 }>>,
    enabled: Option<bool>,
    memory: MemoryFile,
    record: RecordFile,
    reports: ReportsFile,
    limits: LimitsFile,
    uploads: UploadsFile,
    consent: ConsentFile,
    /// Read apart, because its keys are data, too.
    #[serde(rename = "detectors")]
    _detectors: Option<IgnoredAny>,
}

impl Policy {
    /// Whether a file of this length may be read.
    pub(super) fn check_length(text: &str) -> Result<(), PolicyError> {
        if text.len() > MAX_POLICY_BYTES {
            return Err(PolicyError {
                line: 1,
                column: 1,
                key: String::new(),
                problem: format!(
                    "the file has {} bytes; at most {MAX_POLICY_BYTES} are read: remove overrides",
                    text.len()
                ),
            });
        }
        Ok(())
    }

    /// From the text of a policy file. What the file leaves out has the built-in value.
    ///
    /// # Errors
    /// If the text is too long, is no TOML, is of another version, has an unknown key, or a value that is not allowed.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        Policy::read(text, false)
    }

    /// As [`parse`](Self::parse), of a policy that somebody loads now: it is also refused if a part of it can have no effect. One that
    /// was taken before, or is part of a ROM, is read without that, so that a newer build takes what an older one took.
    ///
    /// # Errors
    /// As there, and what has no effect.
    pub fn parse_new(text: &str) -> Result<Self, PolicyError> {
        Policy::read(text, true)
    }

    fn read(text: &str, is_new: bool) -> Result<Self, PolicyError> {
        Policy::check_length(text)?;
        check_version(text)?;
        let file: PolicyFile =
            toml::from_str(text).map_err(|error| PolicyError::of_parser(text, &error))?;
        file.policy(text, is_new)
    }
}

/// A file of a newer version has keys that this build does not know: its version is the better error.
fn check_version(text: &str) -> Result<(), PolicyError> {
    let table = DeTable::parse(text).map_err(|error| PolicyError::of_parser(text, &error))?;
    let remedy = format!("this build reads version {POLICY_VERSION}: write version = 1 at the top");
    let Some(version) = table.get_ref().get("version") else {
        let problem = format!("the version is missing; {remedy}");
        return Err(PolicyError::at(text, 0, problem));
    };
    let number = version.get_ref().as_integer();
    let number = number.and_then(|n| u64::from_str_radix(n.as_str(), n.radix()).ok());
    if number == Some(POLICY_VERSION) {
        return Ok(());
    }
    let problem = format!("the file has another version; {remedy}");
    Err(PolicyError::at(text, version.span().start, problem))
}

/// No process has a name with an empty part.
const NO_NAME: &str =
    "no process has such a name: it has nothing between two of its dots or colons";

impl PolicyFile {
    /// `is_new`: refuse what has no effect.
    fn policy(self, text: &str, is_new: bool) -> Result<Policy, PolicyError> {
        let built_in = Policy::default();
        Ok(Policy {
            revision: self.revision.map_or(built_in.revision, |n| n.0),
            enabled: self.enabled.unwrap_or(built_in.enabled),
            memory: self.memory.memory(built_in.memory),
            record: self.record.record(&built_in.record, text, is_new)?,
            reports: self.reports.reports(built_in.reports),
            limits: self.limits.limits(built_in.limits),
            uploads: self.uploads.uploads(built_in.uploads, text, is_new)?,
            consent: self.consent.rules(built_in.consent, text)?,
            detectors: detectors::parse(text, is_new)?,
        })
    }
}

impl MemoryFile {
    fn memory(self, d: Memory) -> Memory {
        Memory {
            budget_bytes: self.budget_mib.map_or(d.budget_bytes, |n| n.0 * MIB),
            ring_share: self.ring_share.map_or(d.ring_share, Number::u32),
            uid_share: self.uid_share.map_or(d.uid_share, Number::u32),
            call_rings: self.call_rings.map_or(d.call_rings, Number::u32),
            rings_per_process: self
                .rings_per_process
                .map_or(d.rings_per_process, Number::u32),
            processes: self.processes.map_or(d.processes, Number::u32),
            processes_per_uid: self
                .processes_per_uid
                .map_or(d.processes_per_uid, Number::u32),
        }
    }
}

impl RecordFile {
    fn record(self, d: &Record, text: &str, is_new: bool) -> Result<Record, PolicyError> {
        let mut overrides: Vec<Override> = Vec::new();
        for file in self.r#override {
            let at = file.span().start;
            let found = file.into_inner().exception();
            let refused = |problem: &str| Err(PolicyError::at(text, at, problem));
            if let Some(mistake) = found.of.mistake() {
                return refused(mistake);
            }
            let is_pattern_of_none = |package: &Package| !package.can_match();
            if is_new && found.of.package.as_ref().is_some_and(is_pattern_of_none) {
                return refused(NO_NAME);
            }
            if is_new && found.is_empty() {
                return refused("it changes nothing: write enabled, categories, rings, background or consent, or remove it");
            }
            if overrides.iter().any(|other| other.of == found.of) {
                return refused("a second override of the same processes: make one of both");
            }
            if overrides.len() == MAX_OVERRIDES {
                return refused(
                    "more than 1000 overrides: use patterns, such as \"com.example.*\"",
                );
            }
            overrides.push(found);
        }
        let categories = self.categories.map_or(d.categories, |names| bits(&names));
        Ok(Record::new(categories, overrides))
    }
}

impl OverrideFile {
    fn exception(self) -> Override {
        Override {
            of: Selector {
                uid: self.uid.map(Number::u32),
                app_id: self.app_id.map(Number::u32),
                package: self.package.map(|name| name.0),
            },
            enabled: self.enabled,
            categories: self.categories.map(|names| bits(&names)),
            rings: self.rings.map(Number::u32),
            background: self.background,
            consent: self.consent.map(|level| level.0),
        }
    }
}

impl ReportsFile {
    fn reports(self, d: Reports) -> Reports {
        let severities = self
            .severities
            .map(|names| names.iter().map(|name| name.0).collect());
        Reports {
            killed: self.killed.map_or(d.killed, |name| name.0),
            grace_ns: self.grace_seconds.map_or(d.grace_ns, |n| n.0 * SECOND_NS),
            killed_ns: self.killed_seconds.map_or(d.killed_ns, |n| n.0 * SECOND_NS),
            memory_percent: self.memory_percent.map_or(d.memory_percent, Number::u32),
            severities: severities.unwrap_or(d.severities),
            queue: self.queue.map_or(d.queue, Number::u32),
            log_bytes: self.log_kib.map_or(d.log_bytes, |n| (n.0 << 10) as usize),
            peers: self.peers.map_or(d.peers, Number::u32),
        }
    }
}

impl LimitsFile {
    fn limits(self, d: Limits) -> Limits {
        let device = self.device.map_or(d.device, Number::u32);
        Limits {
            window_ns: self.window_hours.map_or(d.window_ns, |n| n.0 * HOUR_NS),
            device,
            // No detector uses up what others need.
            device_per_detector: self
                .device_per_detector
                .map_or(device.div_ceil(2), Number::u32),
            per_uid: self.per_uid.map_or(d.per_uid, Number::u32),
            per_detector: self.per_detector.map_or(d.per_detector, Number::u32),
        }
    }
}

impl UploadsFile {
    fn uploads(self, d: Uploads, text: &str, is_new: bool) -> Result<Uploads, PolicyError> {
        let (at, names) = self.campaign.map_or((0, Vec::new()), |names| {
            (names.span().start, names.into_inner())
        });
        let select_at = self.select.as_ref().map_or(0, |select| select.span().start);
        let select = self.select.map(Spanned::into_inner);
        let is_campaign = matches!(select, Some(SelectFile::Campaign));
        if is_new && names.is_empty() && is_campaign {
            let problem = "no app is in the campaign, so that nothing would leave: add campaign = [\"com.example.*\"], or write select = \"first\"";
            return Err(PolicyError::at(text, select_at, problem));
        }
        if !names.is_empty() && !is_campaign {
            let problem =
                "a campaign without select = \"campaign\": add that, or remove the campaign";
            return Err(PolicyError::at(text, at, problem));
        }
        let packages: Vec<Package> = names.into_iter().map(|name| name.0).collect();
        if is_new && !packages.iter().all(Package::can_match) {
            return Err(PolicyError::at(text, at, NO_NAME));
        }
        Ok(Uploads {
            signatures: signatures(self.signature, text)?,
            window_ns: self.window_hours.map_or(d.window_ns, |n| n.0 * HOUR_NS),
            device: self.device.map_or(d.device, Number::u32),
            select: match select {
                None => d.select,
                Some(SelectFile::First) => Select::First,
                Some(SelectFile::Severe) => Select::Severe,
                Some(SelectFile::Campaign) => Select::Campaign(packages),
            },
        })
    }
}

impl OfUserFile {
    fn rules(self, d: OfUser) -> OfUser {
        OfUser {
            most: self.most.map_or(d.most, |level| level.0),
            unasked: self.unasked.map_or(d.unasked, |level| level.0),
        }
    }
}

impl RegionFile {
    fn rule(self) -> Result<RegionRule, &'static str> {
        let regions = self
            .regions
            .map(|all| all.into_iter().map(|code| code.0 .0));
        let models = self.models.map(|all| all.into_iter().map(|model| model.0));
        let rule = RegionRule {
            regions: regions.map(Iterator::collect),
            models: models.map(Iterator::collect),
            user: self.user.map(|user| user.0),
            most: self.most.0,
        };
        // A rule that is about nothing, or about all, is a mistake: all is what the rules of user types are for.
        let is_empty = rule.regions.as_ref().is_some_and(Vec::is_empty)
            || rule.models.as_ref().is_some_and(Vec::is_empty);
        match is_empty || (rule.regions.is_none() && rule.models.is_none()) {
            true => Err("it is about no region and no device model: write regions or models, with one name at least"),
            false => Ok(rule),
        }
    }
}

impl ConsentFile {
    fn rules(self, d: ConsentRules, text: &str) -> Result<ConsentRules, PolicyError> {
        let regions = self.region.into_iter().map(|file| {
            let at = file.span().start;
            let rule = file.into_inner().rule();
            rule.map_err(|problem| PolicyError::at(text, at, problem))
        });
        Ok(ConsentRules {
            internal: self.internal.rules(d.internal),
            beta: self.beta.rules(d.beta),
            end_user: self.end_user.rules(d.end_user),
            regions: regions.collect::<Result<_, _>>()?,
        })
    }
}
