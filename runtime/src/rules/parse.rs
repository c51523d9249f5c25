// SPDX-License-Identifier: Apache-2.0
//! The text of a rules file: one rule a line. `docs/events.md` describes it.

use std::collections::HashSet;

/// Maximum size of a file, bytes.
pub(crate) const MAX_FILE: usize = 64 << 10;
/// Maximum number of rules in a file.
pub const MAX_RULES: usize = 64;
/// Maximum length of a line, bytes.
const MAX_LINE: usize = 512;
/// Maximum length of a rule's name, bytes.
const MAX_NAME: usize = 100;

/// The object whose identity the events of a method have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// `this`, or none if the method is static.
    This,
    /// None.
    No,
    /// The argument with this number, from 1 on; `this` is not counted.
    Argument(u8),
    /// What the method returns: the object of its `rule ends`.
    Result,
    /// A number of `this` and the argument with this number: an element of a queue.
    ThisAndArgument(u8),
    /// A number of `this` and what the method returns: an element that is taken out of a queue.
    ThisAndResult,
}

/// What a rule names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The methods of this name.
    Method {
        /// Descriptors of the parameters, `(ILjava/lang/String;)`; `None` for all methods of the name.
        parameters: Option<String>,
        /// Which object the events name.
        identity: Identity,
        /// The branches that the methods take are events, too.
        branches: bool,
    },
    /// The field of this name.
    Field {
        /// Reads are events.
        reads: bool,
        /// Writes are events.
        writes: bool,
        /// The events have the field's value.
        value: bool,
    },
}

/// A rule: calls of a method, or accesses to a field, are events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its line in the file, from 1 on.
    pub line: usize,
    /// Descriptor of the class, `Lcom/example/Queue;`.
    pub class: String,
    /// Name of the method or field.
    pub member: String,
    /// A method or a field.
    pub target: Target,
    /// The name that the events have.
    pub name: String,
}

/// Parses a file. An error starts with the number of the line.
///
/// # Errors
/// The first line that is no rule, with what it should be; nothing is guessed.
pub fn parse(text: &str) -> Result<Vec<Rule>, String> {
    if text.len() > MAX_FILE {
        return Err(format!("1: the file has more than {MAX_FILE} bytes"));
    }
    let mut rules: Vec<Rule> = Vec::new();
    let mut names = HashSet::new();
    for (i, line) in text.lines().enumerate() {
        let number = i + 1;
        let rule = parse_line(line, number).map_err(|e| format!("{number}: {e}"))?;
        let Some(rule) = rule else {
            continue;
        };
        if rules.len() == MAX_RULES {
            return Err(format!("{number}: there are more than {MAX_RULES} rules"));
        }
        if !names.insert(rule.name.clone()) {
            let name = &rule.name;
            return Err(format!(
                "{number}: another rule is called '{name}'; give this one name=NAME"
            ));
        }
        rules.push(rule);
    }
    Ok(rules)
}

/// The rule in a line; `None` if the line is empty or a comment.
fn parse_line(line: &str, number: usize) -> Result<Option<Rule>, String> {
    if line.len() > MAX_LINE {
        return Err(format!("the line has more than {MAX_LINE} bytes"));
    }
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (kind, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim_start();
    match kind {
        "method" => method(rest, number, false).map(Some),
        "trace" => method(rest, number, true).map(Some),
        "field" => field(rest, number).map(Some),
        _ => Err(format!(
            "'{kind}' is no rule: a line is 'method CLASS.METHOD', 'trace CLASS.METHOD', 'field CLASS.FIELD', or a comment after '#'"
        )),
    }
}

/// `com.example.Queue.put(java.lang.Object) identity=argument-1 name=put`.
fn method(text: &str, line: usize, branches: bool) -> Result<Rule, String> {
    let end = text
        .find(|c: char| c == '(' || c.is_whitespace())
        .unwrap_or(text.len());
    let (path, mut rest) = text.split_at(end);
    let form = match branches {
        true => "trace CLASS.METHOD",
        false => "method CLASS.METHOD",
    };
    let (class, member) = class_and_member(path, form)?;
    let mut parameters = None;
    if let Some(list) = rest.strip_prefix('(') {
        let (list, after) = list
            .split_once(')')
            .ok_or("the list of parameter types has no ')'")?;
        parameters = Some(parameter_descriptors(list)?);
        rest = after;
    }
    let mut identity = Identity::This;
    let mut name = format!("{}.{member}", simple_name(path, member));
    for (key, value) in options(rest)? {
        match key {
            "name" => name = checked_name(value)?,
            "identity" => identity = parse_identity(value)?,
            _ => return Err(unknown_option(key, "name and identity")),
        }
    }
    Ok(Rule {
        line,
        class,
        member: member.to_owned(),
        target: Target::Method {
            parameters,
            identity,
            branches,
        },
        name,
    })
}

/// `com.example.Flag.done access=written name=done`.
fn field(text: &str, line: usize) -> Result<Rule, String> {
    let (path, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let (class, member) = class_and_member(path, "field CLASS.FIELD")?;
    let (mut reads, mut writes, mut with_value) = (true, true, false);
    let mut name = format!("{}.{member}", simple_name(path, member));
    for (key, value) in options(rest)? {
        match (key, value) {
            ("name", _) => name = checked_name(value)?,
            ("access", "read") => (reads, writes) = (true, false),
            ("access", "written") => (reads, writes) = (false, true),
            ("access", "both") => (reads, writes) = (true, true),
            ("access", _) => {
                return Err(format!(
                    "'{value}' is no value for access: it takes read, written or both"
                ))
            }
            ("value", "yes") => with_value = true,
            ("value", "no") => with_value = false,
            ("value", _) => {
                return Err(format!(
                    "'{value}' is no value for value: it takes yes or no"
                ))
            }
            _ => return Err(unknown_option(key, "name, access and value")),
        }
    }
    Ok(Rule {
        line,
        class,
        member: member.to_owned(),
        target: Target::Field {
            reads,
            writes,
            value: with_value,
        },
        name,
    })
}

/// `key=value` pairs.
fn options(text: &str) -> Result<Vec<(&str, &str)>, String> {
    text.split_whitespace()
        .map(|item| {
            item.split_once('=')
                .ok_or_else(|| format!("'{item}' is not of the form key=value"))
        })
        .collect()
}

fn unknown_option(key: &str, known: &str) -> String {
    format!("unknown option '{key}' (known: {known})")
}

fn checked_name(name: &str) -> Result<String, String> {
    match name.len() {
        1..=MAX_NAME => Ok(name.to_owned()),
        _ => Err(format!("a name has 1 to {MAX_NAME} bytes")),
    }
}

fn parse_identity(value: &str) -> Result<Identity, String> {
    let argument = |n: &str| n.parse().ok().filter(|n| *n != 0);
    let of_call = |value: &str| value.strip_prefix("argument-").and_then(argument);
    let identity = match value {
        "this" => Some(Identity::This),
        "none" => Some(Identity::No),
        "result" => Some(Identity::Result),
        "this+result" => Some(Identity::ThisAndResult),
        _ => match value.strip_prefix("this+") {
            Some(rest) => of_call(rest).map(Identity::ThisAndArgument),
            None => of_call(value).map(Identity::Argument),
        },
    };
    identity.ok_or_else(|| {
        format!("'{value}' is no value for identity: it takes this, none, result, argument-N with N from 1 on, this+result, or this+argument-N")
    })
}

/// The class's name without its package.
fn simple_name<'a>(path: &'a str, member: &str) -> &'a str {
    let class = path[..path.len() - member.len()].trim_end_matches('.');
    class.rsplit('.').next().unwrap_or(class)
}

/// Splits `com.example.Queue.put` into the class's descriptor and the member's name.
fn class_and_member<'a>(path: &'a str, form: &str) -> Result<(String, &'a str), String> {
    let wrong = || format!("'{path}' does not name a class and a member: the form is '{form}'");
    let (class, member) = path.rsplit_once('.').ok_or_else(wrong)?;
    if !is_class_name(class) || !is_member_name(member) {
        return Err(wrong());
    }
    Ok((class_descriptor(class), member))
}

fn class_descriptor(name: &str) -> String {
    format!("L{};", name.replace('.', "/"))
}

fn is_class_name(name: &str) -> bool {
    name.split('.').all(is_identifier)
}

fn is_member_name(name: &str) -> bool {
    is_identifier(name) || name == "<init>"
}

fn is_identifier(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || "_$-".contains(c))
}

/// `(ILjava/lang/String;)` of `int, java.lang.String`.
fn parameter_descriptors(list: &str) -> Result<String, String> {
    let mut descriptors = String::from("(");
    if !list.trim().is_empty() {
        for name in list.split(',') {
            descriptors += &type_descriptor(name.trim())?;
        }
    }
    Ok(descriptors + ")")
}

fn type_descriptor(name: &str) -> Result<String, String> {
    let element = name.trim_end_matches("[]");
    let dimensions = (name.len() - element.len()) / 2;
    let descriptor = match element {
        "boolean" => "Z".to_owned(),
        "byte" => "B".to_owned(),
        "char" => "C".to_owned(),
        "short" => "S".to_owned(),
        "int" => "I".to_owned(),
        "long" => "J".to_owned(),
        "float" => "F".to_owned(),
        "double" => "D".to_owned(),
        class if is_class_name(class) => class_descriptor(class),
        _ => {
            return Err(format!(
                "'{name}' is no type of a parameter; examples: int, java.lang.String, byte[]"
            ))
        }
    };
    Ok("[".repeat(dimensions) + &descriptor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Rule {
        let mut rules = parse(line).unwrap();
        assert_eq!(rules.len(), 1);
        rules.remove(0)
    }

    #[test]
    fn a_method_has_parameters_an_identity_and_a_name() {
        let rule = one("method com.example.Queue.put(int[], java.lang.Object) identity=argument-2 name=queue-put");
        assert_eq!(
            rule,
            Rule {
                line: 1,
                class: "Lcom/example/Queue;".into(),
                member: "put".into(),
                target: Target::Method {
                    parameters: Some("([ILjava/lang/Object;)".into()),
                    identity: Identity::Argument(2),
                    branches: false,
                },
                name: "queue-put".into(),
            }
        );
    }

    #[test]
    fn an_identity_may_be_of_what_is_returned_and_of_two_objects() {
        let identity = |value: &str| match one(&format!("method A.b identity={value}")).target {
            Target::Method { identity, .. } => identity,
            Target::Field { .. } => unreachable!("it is a method"),
        };
        assert_eq!(identity("result"), Identity::Result);
        assert_eq!(identity("this+result"), Identity::ThisAndResult);
        assert_eq!(identity("this+argument-2"), Identity::ThisAndArgument(2));
        for wrong in [
            "this+",
            "this+this",
            "result+this",
            "this+argument-0",
            "argument-",
        ] {
            let error = parse(&format!("method A.b identity={wrong}")).unwrap_err();
            assert!(error.contains("is no value for identity"), "{error}");
        }
    }

    #[test]
    fn parameters_identity_and_name_may_be_left_out() {
        let rule = one("  method\ta.b.Outer$Inner.<init>  ");
        assert_eq!(rule.class, "La/b/Outer$Inner;");
        assert_eq!(
            (&*rule.member, &*rule.name),
            ("<init>", "Outer$Inner.<init>")
        );
        let target = Target::Method {
            parameters: None,
            identity: Identity::This,
            branches: false,
        };
        assert_eq!(rule.target, target);
        let rule = one("method Main.run() identity=none");
        let target = Target::Method {
            parameters: Some("()".into()),
            identity: Identity::No,
            branches: false,
        };
        assert_eq!((rule.target, &*rule.name), (target, "Main.run"));
    }

    #[test]
    fn a_trace_is_a_method_with_its_branches() {
        let rule = one("trace a.Main.poll(int) identity=none name=p");
        let target = Target::Method {
            parameters: Some("(I)".into()),
            identity: Identity::No,
            branches: true,
        };
        assert_eq!((rule.target, &*rule.name), (target, "p"));
        assert_eq!(
            parse("trace poll").unwrap_err(),
            "1: 'poll' does not name a class and a member: the form is 'trace CLASS.METHOD'"
        );
    }

    #[test]
    fn a_field_is_watched_for_reads_and_writes() {
        let target = |line| one(line).target;
        let access = |reads, writes| Target::Field {
            reads,
            writes,
            value: false,
        };
        assert_eq!(target("field a.Flag.done"), access(true, true));
        assert_eq!(target("field a.Flag.done access=read"), access(true, false));
        assert_eq!(
            target("field a.Flag.done access=written"),
            access(false, true)
        );
        assert_eq!(one("field a.Flag.done name=d").name, "d");
        let with_value = Target::Field {
            reads: false,
            writes: true,
            value: true,
        };
        assert_eq!(
            target("field a.Flag.done value=yes access=written"),
            with_value
        );
    }

    #[test]
    fn lines_are_counted_and_comments_left_out() {
        let rules = parse("# a comment\n\nmethod A.a\r\nfield A.b").unwrap();
        let lines: Vec<_> = rules.iter().map(|r| r.line).collect();
        assert_eq!(lines, [3, 4]);
    }

    #[test]
    fn errors_name_the_line_and_the_remedy() {
        for (text, error) in [
            (
                "\nmetod a.B.c",
                "2: 'metod' is no rule: a line is 'method CLASS.METHOD', 'trace CLASS.METHOD', 'field CLASS.FIELD', or a comment after '#'",
            ),
            (
                "method put",
                "1: 'put' does not name a class and a member: the form is 'method CLASS.METHOD'",
            ),
            (
                "field a/B.c",
                "1: 'a/B.c' does not name a class and a member: the form is 'field CLASS.FIELD'",
            ),
            ("method a.B.c(int", "1: the list of parameter types has no ')'"),
            (
                "method a.B.c(int x)",
                "1: 'int x' is no type of a parameter; examples: int, java.lang.String, byte[]",
            ),
            (
                "method a.B.c identity=2",
                "1: '2' is no value for identity: it takes this, none, result, argument-N with N from 1 on, this+result, or this+argument-N",
            ),
            (
                "method a.B.c when=now",
                "1: unknown option 'when' (known: name and identity)",
            ),
            ("method a.B.c now", "1: 'now' is not of the form key=value"),
            (
                "field a.B.c access=all",
                "1: 'all' is no value for access: it takes read, written or both",
            ),
            (
                "field a.B.c value=1",
                "1: '1' is no value for value: it takes yes or no",
            ),
            ("method a.B.c name=", "1: a name has 1 to 100 bytes"),
            (
                "method a.B.c(int)\nmethod a.B.c()",
                "2: another rule is called 'B.c'; give this one name=NAME",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn any_text_is_parsed_or_refused() {
        const PARTS: [&str; 16] = [
            "method ",
            "field ",
            "a",
            ".",
            "B$",
            "(",
            ")",
            "int",
            "[]",
            ",",
            " ",
            "\n",
            "ä",
            "identity=",
            "argument-",
            "9",
        ];
        let mut state = 1_u64;
        let (mut parsed, mut refused) = (0, 0);
        for _ in 0..20_000 {
            let mut text = String::from("method a.b");
            for _ in 0..state % 7 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                text += PARTS[(state >> 60) as usize];
            }
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1)
                >> 1;
            match parse(&text) {
                Ok(rules) => parsed += usize::from(!rules.is_empty()),
                Err(_) => refused += 1,
            }
        }
        assert!(parsed > 100 && refused > 100, "{parsed} {refused}");
    }

    #[test]
    fn the_number_of_rules_and_the_lengths_are_bounded() {
        let rules = |n: usize| -> String { (0..n).map(|i| format!("method A.m{i}\n")).collect() };
        assert_eq!(parse(&rules(MAX_RULES)).unwrap().len(), MAX_RULES);
        assert_eq!(
            parse(&rules(MAX_RULES + 1)).unwrap_err(),
            "65: there are more than 64 rules"
        );
        let long = format!("method {}.b", "a".repeat(MAX_LINE));
        assert_eq!(
            parse(&long).unwrap_err(),
            "1: the line has more than 512 bytes"
        );
        assert_eq!(
            parse(&"#\n".repeat(MAX_FILE)).unwrap_err(),
            "1: the file has more than 65536 bytes"
        );
    }
}
