// SPDX-License-Identifier: Apache-2.0
//! The table `detectors` of a policy file.

use hindsight_trace_format::protocol::{
    AppDetector, Parameter, DETECTORS, MAX_METHOD_BYTES, MAX_SLOW_METHODS,
};
use toml::de::{DeTable, DeValue};
use toml::Spanned;

use super::{
    Condition, Correlated, Detectors, Metric, Rule, SlowMethod, CORRELATED, SERVICE_DETECTORS,
};
use crate::policy::error::PolicyError;
use crate::policy::selector::{Package, Selector, UIDS_OF_A_USER};

/// The most methods that are watched, of all processes together.
const MAX_METHODS: usize = 256;
/// The most rules over several metrics, and conditions of one.
const MAX_CORRELATED: usize = 16;
const MAX_CONDITIONS: usize = 8;
/// Longest name of a rule, bytes: it becomes a part of a detector's name.
const MAX_NAME_BYTES: usize = 40;
const SECOND_NS: u64 = 1_000_000_000;

type Value<'a> = Spanned<DeValue<'a>>;

/// The rules in a policy file, which is TOML. `is_new`: a rule that can never fire is refused.
///
/// # Errors
/// If a detector or key is unknown, or a value is not allowed.
pub(in crate::policy) fn parse(text: &str, is_new: bool) -> Result<Detectors, PolicyError> {
    let file = DeTable::parse(text).map_err(|error| PolicyError::of_parser(text, &error))?;
    let mut rules = Detectors::default();
    let Some(detectors) = file.get_ref().get("detectors") else {
        return Ok(rules);
    };
    let parser = Parser { text, is_new };
    for (key, value) in parser.table(detectors, "detectors")? {
        parser.detector(key.get_ref(), key.span().start, value, &mut rules)?;
    }
    Ok(rules)
}

struct Parser<'t> {
    text: &'t str,
    is_new: bool,
}

impl Parser<'_> {
    fn refuse<T>(&self, byte: usize, problem: impl Into<String>) -> Result<T, PolicyError> {
        Err(PolicyError::at(self.text, byte, problem))
    }

    fn detector(
        &self,
        name: &str,
        at: usize,
        value: &Value<'_>,
        rules: &mut Detectors,
    ) -> Result<(), PolicyError> {
        if name == CORRELATED {
            rules.correlated =
                self.list(value, name, MAX_CORRELATED, |item| self.correlated(item))?;
            return self.check_names(value, &rules.correlated);
        }
        if name == AppDetector::SlowMethod.spec().name {
            rules.slow_methods =
                self.list(value, name, MAX_METHODS, |item| self.slow_method(item))?;
            return self.check_methods(value, &rules.slow_methods);
        }
        let of_apps = DETECTORS.iter().position(|spec| spec.name == name);
        let of_service = SERVICE_DETECTORS.iter().position(|spec| spec.name == name);
        match (of_apps, of_service) {
            (Some(place), _) => self.rule(
                value,
                name,
                DETECTORS[place].parameters,
                &mut rules.apps[place],
            ),
            (None, Some(place)) => {
                let parameters = SERVICE_DETECTORS[place].parameters;
                self.rule(value, name, parameters, &mut rules.service[place])
            }
            (None, None) => {
                let of_apps = DETECTORS.iter().map(|spec| spec.name);
                let of_service = SERVICE_DETECTORS.iter().map(|spec| spec.name);
                let all: Vec<&str> = of_apps.chain(of_service).chain([CORRELATED]).collect();
                let problem = format!("there is no detector {name}; there are {}", all.join(", "));
                self.refuse(at, problem)
            }
        }
    }

    /// A table with `enabled` and parameters.
    fn rule(
        &self,
        value: &Value<'_>,
        name: &str,
        parameters: &[Parameter],
        rule: &mut Rule,
    ) -> Result<(), PolicyError> {
        for (key, value) in self.table(value, name)? {
            let key_name = key.get_ref().as_ref();
            if key_name == "enabled" {
                rule.enabled = self.flag(value)?;
                continue;
            }
            let Some(place) = parameters.iter().position(|p| p.key == key_name) else {
                let keys = parameters.iter().map(|p| p.key);
                return self.unknown(
                    key_name,
                    key.span().start,
                    ["enabled"].into_iter().chain(keys),
                );
            };
            rule.numbers[place] = self.number(value, parameters[place].range)?;
        }
        self.check_range(value, parameters, rule)
    }

    /// What takes longer than the limit, and no longer than the most: the limit must be below.
    fn check_range(
        &self,
        value: &Value<'_>,
        parameters: &[Parameter],
        rule: &Rule,
    ) -> Result<(), PolicyError> {
        let find = |name: &str| {
            let place = parameters.iter().position(|p| p.key == name)?;
            rule.numbers.get(place).copied()
        };
        let is_looked_at = self.is_new && rule.enabled;
        match (find("limit-ms"), find("most-ms")) {
            (Some(limit), Some(most)) if is_looked_at && limit > most => self.refuse(
                value.span().start,
                format!("limit-ms ({limit}) is above most-ms ({most}), so that it never fires: lower limit-ms, or raise most-ms"),
            ),
            _ => Ok(()),
        }
    }

    fn slow_method(&self, item: &Value<'_>) -> Result<SlowMethod, PolicyError> {
        let spec = AppDetector::SlowMethod.spec();
        let mut found = SlowMethod {
            of: Selector::default(),
            method: String::new(),
            numbers: spec.defaults(),
        };
        for (key, value) in self.table(item, spec.name)? {
            let key_name = key.get_ref().as_ref();
            match key_name {
                "package" => {
                    let name = self.string(value)?;
                    let package = Package::parse(name);
                    let at = value.span().start;
                    found.of.package =
                        Some(package.or_else(|problem| {
                            self.refuse(at, format!("\"{name}\" is {problem}"))
                        })?);
                }
                "uid" => {
                    let uid = self.number(value, (0, 0xffff_fffe))?;
                    found.of.uid = u32::try_from(uid).ok();
                }
                "app-id" => {
                    let app_id = self.number(value, (0, u64::from(UIDS_OF_A_USER) - 1))?;
                    found.of.app_id = u32::try_from(app_id).ok();
                }
                "method" => {
                    let method = self.string(value)?;
                    if !is_method(method) {
                        let problem = format!("\"{method}\" is no method of a class, such as \"com.example.Store.load\", of at most {MAX_METHOD_BYTES} bytes");
                        return self.refuse(value.span().start, problem);
                    }
                    found.method = method.into();
                }
                _ => {
                    let place = spec.parameters.iter().position(|p| p.key == key_name);
                    let Some(place) = place else {
                        let keys = spec.parameters.iter().map(|p| p.key);
                        let keys = ["package", "app-id", "uid", "method"]
                            .into_iter()
                            .chain(keys);
                        return self.unknown(key_name, key.span().start, keys);
                    };
                    found.numbers[place] = self.number(value, spec.parameters[place].range)?;
                }
            }
        }
        if found.method.is_empty() {
            return self.refuse(
                item.span().start,
                "the method is missing: write method = \"com.example.Store.load\"",
            );
        }
        if let Some(mistake) = found.of.mistake() {
            return self.refuse(item.span().start, mistake);
        }
        Ok(found)
    }

    fn correlated(&self, item: &Value<'_>) -> Result<Correlated, PolicyError> {
        let mut found = Correlated {
            name: String::new(),
            all: Vec::new(),
            quiet_ns: 600 * SECOND_NS,
        };
        for (key, value) in self.table(item, CORRELATED)? {
            match key.get_ref().as_ref() {
                "name" => {
                    let name = self.string(value)?;
                    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
                    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(allowed)
                    {
                        let problem = format!("\"{name}\" is no name: small letters, digits and dashes, at most {MAX_NAME_BYTES}");
                        return self.refuse(value.span().start, problem);
                    }
                    found.name = name.into();
                }
                "all" => {
                    let one = |item: &Value<'_>| self.condition(item);
                    found.all = self.list(value, "all", MAX_CONDITIONS, one)?;
                }
                "quiet-seconds" => found.quiet_ns = self.number(value, (0, 86_400))? * SECOND_NS,
                other => {
                    return self.unknown(other, key.span().start, ["name", "all", "quiet-seconds"]);
                }
            }
        }
        if found.name.is_empty() {
            return self.refuse(
                item.span().start,
                "the name is missing: write name = \"memory-jank\"",
            );
        }
        if found.all.is_empty() {
            return self.refuse(item.span().start, "the conditions are missing: write all = [{ metric = \"psi-memory-percent\", over = 20, for-seconds = 2 }]");
        }
        Ok(found)
    }

    fn condition(&self, item: &Value<'_>) -> Result<Condition, PolicyError> {
        let (mut metric, mut over, mut seconds) = (None, None, 1);
        for (key, value) in self.table(item, "all")? {
            match key.get_ref().as_ref() {
                "metric" => {
                    let name = self.string(value)?;
                    let Some(found) = Metric::from_name(name) else {
                        let problem = format!(
                            "\"{name}\" is not one of {}",
                            Metric::ALL.map(Metric::name).join(", ")
                        );
                        return self.refuse(value.span().start, problem);
                    };
                    metric = Some(found);
                }
                "over" => over = Some(self.number(value, (0, 1_000_000_000))?),
                "for-seconds" => seconds = self.number(value, (1, 3600))?,
                other => {
                    return self.unknown(
                        other,
                        key.span().start,
                        ["metric", "over", "for-seconds"],
                    );
                }
            }
        }
        match (metric, over) {
            (Some(metric), Some(over)) => Ok(Condition {
                metric,
                over,
                for_ns: seconds * SECOND_NS,
            }),
            _ => self.refuse(
                item.span().start,
                "metric or over is missing: write { metric = \"psi-memory-percent\", over = 20 }",
            ),
        }
    }

    /// The names tell rules apart, also in limits and reports.
    fn check_names(&self, value: &Value<'_>, rules: &[Correlated]) -> Result<(), PolicyError> {
        for (at, rule) in rules.iter().enumerate() {
            if rules[..at].iter().any(|other| other.name == rule.name) {
                let problem = format!(
                    "a second rule has the name \"{}\": give it another one",
                    rule.name
                );
                return self.refuse(self.start_of(value, at), problem);
            }
        }
        Ok(())
    }

    /// A process has room for so many only.
    fn check_methods(&self, value: &Value<'_>, rules: &[SlowMethod]) -> Result<(), PolicyError> {
        for (at, rule) in rules.iter().enumerate() {
            let same = rules[..at]
                .iter()
                .filter(|other| other.of == rule.of)
                .count();
            if same >= MAX_SLOW_METHODS {
                let problem = format!(
                    "more than {MAX_SLOW_METHODS} methods of the same processes: remove some"
                );
                return self.refuse(self.start_of(value, at), problem);
            }
        }
        Ok(())
    }

    fn start_of(&self, list: &Value<'_>, at: usize) -> usize {
        let items = list.get_ref().as_array();
        let item = items.and_then(|items| items.get(at));
        item.map_or(list.span().start, |item| item.span().start)
    }

    fn table<'v, 'i>(
        &self,
        value: &'v Value<'i>,
        name: &str,
    ) -> Result<&'v DeTable<'i>, PolicyError> {
        match value.get_ref() {
            DeValue::Table(table) => Ok(table),
            _ => self.refuse(
                value.span().start,
                format!("{name} is no table: write [{name}] or {{ … }}"),
            ),
        }
    }

    fn list<T>(
        &self,
        value: &Value<'_>,
        name: &str,
        most: usize,
        mut one: impl FnMut(&Value<'_>) -> Result<T, PolicyError>,
    ) -> Result<Vec<T>, PolicyError> {
        let DeValue::Array(items) = value.get_ref() else {
            return self.refuse(
                value.span().start,
                format!("{name} is no list: write [[detectors.{name}]], or [ … ]"),
            );
        };
        let mut found = Vec::new();
        for item in items.iter() {
            if found.len() == most {
                return self.refuse(item.span().start, format!("more than {most}: remove some"));
            }
            found.push(one(item)?);
        }
        Ok(found)
    }

    fn unknown<'k, T>(
        &self,
        key: &str,
        at: usize,
        known: impl IntoIterator<Item = &'k str>,
    ) -> Result<T, PolicyError> {
        let known: Vec<&str> = known.into_iter().collect();
        self.refuse(
            at,
            format!("there is no key {key}; there are {}", known.join(", ")),
        )
    }

    fn string<'v>(&self, value: &'v Value<'_>) -> Result<&'v str, PolicyError> {
        match value.get_ref().as_str() {
            Some(text) => Ok(text),
            None => self.refuse(value.span().start, "expected a text in quotes"),
        }
    }

    fn flag(&self, value: &Value<'_>) -> Result<bool, PolicyError> {
        match value.get_ref() {
            DeValue::Boolean(flag) => Ok(*flag),
            _ => self.refuse(value.span().start, "expected true or false"),
        }
    }

    fn number(&self, value: &Value<'_>, (least, most): (u64, u64)) -> Result<u64, PolicyError> {
        let found = value.get_ref().as_integer();
        let found = found.and_then(|n| u64::from_str_radix(n.as_str(), n.radix()).ok());
        match found.filter(|n| (least..=most).contains(n)) {
            Some(number) => Ok(number),
            None => self.refuse(
                value.span().start,
                format!("expected a whole number from {least} to {most}"),
            ),
        }
    }
}

/// Whether this is the name of a class in a package, a dot, and the name of a method.
fn is_method(text: &str) -> bool {
    let is_identifier = |part: &str| {
        let is_allowed = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '-');
        part == "<init>" || (!part.is_empty() && part.chars().all(is_allowed))
    };
    text.len() <= MAX_METHOD_BYTES && text.contains('.') && text.split('.').all(is_identifier)
}
