// SPDX-License-Identifier: Apache-2.0
//! The text of a rules file (`docs/events.md`) with more rules in it.

/// Which accesses are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Reads.
    Read,
    /// Writes.
    Written,
    /// Both.
    #[default]
    Both,
}

impl Access {
    /// As a rules file has it.
    const fn name(self) -> &'static str {
        match self {
            Access::Read => "read",
            Access::Written => "written",
            Access::Both => "both",
        }
    }
}

/// A rule that records accesses to a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRule {
    /// `com.example.Flag.done`.
    pub field: String,
    /// Which accesses.
    pub access: Access,
    /// The events have the field's value; refused unless the process was started with `values=yes`.
    pub value: bool,
    /// The name of its events.
    pub name: String,
}

impl FieldRule {
    /// A rule whose events have the field's full name.
    pub fn new(field: &str, access: Access) -> Self {
        FieldRule {
            field: field.to_owned(),
            access,
            value: false,
            name: field.to_owned(),
        }
    }

    fn line(&self) -> String {
        let value = if self.value { " value=yes" } else { "" };
        format!(
            "field {} access={}{value} name={}",
            self.field,
            self.access.name(),
            self.name
        )
    }
}

/// A rule that records the branches that a method takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchRule {
    /// `com.example.Worker.poll`: all methods of this name.
    pub method: String,
    /// The name of its events.
    pub name: String,
}

impl BranchRule {
    /// A rule whose events have the method's full name.
    pub fn new(method: &str) -> Self {
        BranchRule {
            method: method.to_owned(),
            name: method.to_owned(),
        }
    }
}

/// A rule for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddedRule {
    /// Accesses to a field.
    Field(FieldRule),
    /// The branches of a method.
    Branches(BranchRule),
}

impl AddedRule {
    /// The name of its events.
    pub fn name(&self) -> &str {
        match self {
            AddedRule::Field(rule) => &rule.name,
            AddedRule::Branches(rule) => &rule.name,
        }
    }

    fn line(&self) -> String {
        match self {
            AddedRule::Field(rule) => rule.line(),
            AddedRule::Branches(rule) => format!("trace {} name={}", rule.method, rule.name),
        }
    }

    /// If a line of the file has a rule for the same field or method, that rule with more in it: ART's events go to one rule
    /// only. It keeps its name, which this rule gets.
    fn merge(&mut self, line: &str) -> Option<String> {
        let (kind, path, rest) = parts(line)?;
        match self {
            AddedRule::Field(rule) if kind == "field" && path == rule.field => {
                rule.name = name_in(rest, path);
                rule.access = Access::Both;
                rule.value |= rest.split_whitespace().any(|word| word == "value=yes");
                Some(rule.line())
            }
            AddedRule::Branches(rule)
                if matches!(kind, "method" | "trace") && path == rule.method =>
            {
                rule.name = name_in(rest, path);
                Some(format!("trace {path}{rest}"))
            }
            _ => None,
        }
    }
}

/// A file's text with these rules in addition.
pub(crate) fn with_rules(text: &str, rules: &mut [AddedRule]) -> String {
    let mut result = String::new();
    let mut is_in_file = vec![false; rules.len()];
    for line in text.lines() {
        let open = (0..rules.len()).filter(|&i| !is_in_file[i]);
        let merged = open
            .into_iter()
            .find_map(|i| Some((i, rules[i].merge(line)?)));
        match merged {
            Some((i, merged)) => {
                is_in_file[i] = true;
                result += &merged;
            }
            None => result += line,
        }
        result.push('\n');
    }
    for (rule, _) in rules.iter().zip(is_in_file).filter(|(_, is)| !is) {
        result += &rule.line();
        result.push('\n');
    }
    result
}

/// The kind of a line's rule, the class and member that it names, and the rest: parameters and options.
fn parts(line: &str) -> Option<(&str, &str, &str)> {
    let (kind, rest) = line.trim().split_once(char::is_whitespace)?;
    let rest = rest.trim_start();
    let end = rest.find(|c: char| c == '(' || c.is_whitespace());
    let (path, rest) = rest.split_at(end.unwrap_or(rest.len()));
    Some((kind, path, rest))
}

/// The name that a rule has by its options.
fn name_in(options: &str, path: &str) -> String {
    let mut words = options.split_whitespace();
    let given = words.find_map(|word| word.strip_prefix("name="));
    given.map_or_else(|| default_name(path), str::to_owned)
}

/// The name that a rule has without `name=`: the class's name without its package, a dot, and the member's name.
fn default_name(path: &str) -> String {
    let parts: Vec<&str> = path.rsplitn(3, '.').collect();
    match parts[..] {
        [member, class, ..] => format!("{class}.{member}"),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(field: &str, access: Access) -> AddedRule {
        AddedRule::Field(FieldRule::new(field, access))
    }

    fn names(rules: &[AddedRule]) -> Vec<&str> {
        rules.iter().map(AddedRule::name).collect()
    }

    #[test]
    fn rules_of_the_file_are_kept() {
        let mut rules = [
            field("a.b.Flag.done", Access::Written),
            AddedRule::Branches(BranchRule::new("a.Main.poll")),
        ];
        let text = with_rules("# mine\n\nmethod A.a\r\nfield A.done name=x", &mut rules);
        assert_eq!(
            text,
            "# mine\n\nmethod A.a\nfield A.done name=x\nfield a.b.Flag.done access=written name=a.b.Flag.done\n\
             trace a.Main.poll name=a.Main.poll\n"
        );
        assert_eq!(names(&rules), ["a.b.Flag.done", "a.Main.poll"]);
    }

    #[test]
    fn a_rule_of_the_file_for_the_same_member_records_more_under_its_name() {
        let mut rules = [
            field("a.Flag.done", Access::Read),
            field("a.Flag.other", Access::Read),
            AddedRule::Branches(BranchRule::new("a.Main.poll")),
        ];
        let text = with_rules(
            "  field a.Flag.done access=written name=flag\nfield a.Flag.other value=yes\n\
             method a.Main.poll(int, long) identity=none\nmethod a.Main.poll()\n",
            &mut rules,
        );
        assert_eq!(
            text,
            "field a.Flag.done access=both name=flag\nfield a.Flag.other access=both value=yes name=Flag.other\n\
             trace a.Main.poll(int, long) identity=none\nmethod a.Main.poll()\n"
        );
        assert_eq!(names(&rules), ["flag", "Flag.other", "Main.poll"]);
    }

    #[test]
    fn names_without_a_package_are_kept() {
        assert_eq!(default_name("Flag.done"), "Flag.done");
        assert_eq!(default_name("a.b.Outer$Inner.x"), "Outer$Inner.x");
    }
}
