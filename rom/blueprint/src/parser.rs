// SPDX-License-Identifier: Apache-2.0
//! Turns tokens into modules and evaluates variables.

use crate::error::{Error, Result};
use crate::lexer::{tokens, Lexeme, Token};
use std::collections::{BTreeMap, HashMap};

/// Properties by name.
pub type Map = BTreeMap<String, Value>;

/// A property's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `"text"`
    String(String),
    /// `42`
    Int(i64),
    /// `true`, `false`
    Bool(bool),
    /// `[…]`
    List(Vec<Value>),
    /// `{…}`
    Map(Map),
}

impl Value {
    /// The name of the value's type, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::String(_) => "a string",
            Value::Int(_) => "an integer",
            Value::Bool(_) => "a boolean",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }

    /// The value of `self + other` in Blueprint; `None` if the types don't match.
    fn plus(self, other: Value) -> Option<Value> {
        Some(match (self, other) {
            (Value::String(a), Value::String(b)) => Value::String(a + &b),
            (Value::Int(a), Value::Int(b)) => Value::Int(a.checked_add(b)?),
            (Value::List(mut a), Value::List(b)) => {
                a.extend(b);
                Value::List(a)
            }
            (Value::Map(mut a), Value::Map(b)) => {
                for (name, right) in b {
                    let sum = match a.remove(&name) {
                        Some(left) => left.plus(right)?,
                        None => right,
                    };
                    a.insert(name, sum);
                }
                Value::Map(a)
            }
            _ => return None,
        })
    }
}

/// A module: `type { name: "…", … }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// The module's type, such as `cc_library`.
    pub kind: String,
    /// The `name` property; empty if there is none (as in `package { … }`).
    pub name: String,
    /// All properties, `name` included.
    pub properties: Map,
    /// The line of the module's type, from 1.
    pub line: usize,
}

/// The contents of one `Android.bp`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct File {
    /// The modules, in the order of the file.
    pub modules: Vec<Module>,
    /// The final values of the file's variables.
    pub variables: HashMap<String, Value>,
}

/// Parses the text of a file; `file` is its name for messages.
///
/// # Errors
/// [`Error::Syntax`] with the line, also for a variable that is not defined, or a sum of values
/// of different types.
pub fn parse(file: &str, text: &str) -> Result<File> {
    let mut parser = Parser {
        file,
        tokens: tokens(file, text)?,
        at: 0,
        depth: 0,
        result: File::default(),
    };
    parser.file()?;
    Ok(parser.result)
}

/// Limit of nesting. No build file comes near it; without it, hostile text could overflow the stack.
const MAX_DEPTH: usize = 100;

struct Parser<'a> {
    file: &'a str,
    tokens: Vec<Lexeme>,
    at: usize,
    depth: usize,
    result: File,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].0
    }

    fn line(&self) -> usize {
        self.tokens[self.at].1
    }

    fn next(&mut self) -> Lexeme {
        let lexeme = self.tokens[self.at].clone();
        // `End` is the last token and stays there.
        if lexeme.0 != Token::End {
            self.at += 1;
        }
        lexeme
    }

    fn error<T>(&self, line: usize, message: impl Into<String>) -> Result<T> {
        Err(Error::Syntax {
            file: self.file.to_owned(),
            line,
            message: message.into(),
        })
    }

    fn accept(&mut self, punct: char) -> bool {
        let found = *self.peek() == Token::Punct(punct);
        if found {
            self.at += 1;
        }
        found
    }

    fn expect(&mut self, punct: char) -> Result<()> {
        let (token, line) = self.next();
        if token == Token::Punct(punct) {
            return Ok(());
        }
        self.error(
            line,
            format!("expected `{punct}`, found {}", token.describe()),
        )
    }

    fn file(&mut self) -> Result<()> {
        loop {
            let (token, line) = self.next();
            let name = match token {
                Token::End => return Ok(()),
                Token::Ident(name) => name,
                other => {
                    let found = other.describe();
                    return self.error(
                        line,
                        format!("expected a module or variable, found {found}"),
                    );
                }
            };
            match self.next().0 {
                Token::Punct('=') => {
                    let value = self.value()?;
                    self.result.variables.insert(name, value);
                }
                Token::PlusAssign => {
                    let Some(old) = self.result.variables.get(&name).cloned() else {
                        return self.error(line, format!("variable `{name}` is not defined"));
                    };
                    let value = self.value()?;
                    let sum = self.sum(old, value, line)?;
                    self.result.variables.insert(name, sum);
                }
                Token::Punct('{') => {
                    let properties = self.properties('}')?;
                    self.module(name, properties, line)?;
                }
                // The old form of a module: `type(name = "…")`.
                Token::Punct('(') => {
                    let properties = self.properties(')')?;
                    self.module(name, properties, line)?;
                }
                other => {
                    let found = other.describe();
                    return self.error(
                        line,
                        format!("expected `=`, `+=` or `{{` after `{name}`, found {found}"),
                    );
                }
            }
        }
    }

    fn module(&mut self, kind: String, properties: Map, line: usize) -> Result<()> {
        let name = match properties.get("name") {
            Some(Value::String(name)) => name.clone(),
            None => String::new(),
            Some(other) => {
                return self.error(line, format!("the name of a module is {}", other.kind()))
            }
        };
        self.result.modules.push(Module {
            kind,
            name,
            properties,
            line,
        });
        Ok(())
    }

    fn properties(&mut self, close: char) -> Result<Map> {
        let mut map = Map::new();
        while !self.accept(close) {
            let (token, line) = self.next();
            let (Token::Ident(name) | Token::Str(name)) = token else {
                let found = token.describe();
                return self.error(
                    line,
                    format!("expected a property or `{close}`, found {found}"),
                );
            };
            if !self.accept(':') {
                self.expect('=')?;
            }
            let value = self.value()?;
            if map.insert(name.clone(), value).is_some() {
                return self.error(line, format!("property `{name}` is set twice"));
            }
            if !self.accept(',') {
                self.expect(close)?;
                break;
            }
        }
        Ok(map)
    }

    fn value(&mut self) -> Result<Value> {
        let line = self.line();
        if self.depth == MAX_DEPTH {
            return self.error(line, format!("more than {MAX_DEPTH} levels of nesting"));
        }
        self.depth += 1;
        let mut value = self.operand()?;
        while self.accept('+') {
            let right = self.operand()?;
            value = self.sum(value, right, line)?;
        }
        self.depth -= 1;
        Ok(value)
    }

    fn sum(&self, left: Value, right: Value, line: usize) -> Result<Value> {
        let kinds = (left.kind(), right.kind());
        match left.plus(right) {
            Some(sum) => Ok(sum),
            None => self.error(line, format!("cannot add {} and {}", kinds.0, kinds.1)),
        }
    }

    fn operand(&mut self) -> Result<Value> {
        let (token, line) = self.next();
        match token {
            Token::Str(text) => Ok(Value::String(text)),
            Token::Int(i) => Ok(Value::Int(i)),
            Token::Ident(name) if name == "true" => Ok(Value::Bool(true)),
            Token::Ident(name) if name == "false" => Ok(Value::Bool(false)),
            Token::Ident(name) => match self.result.variables.get(&name) {
                Some(value) => Ok(value.clone()),
                None => self.error(line, format!("variable `{name}` is not defined")),
            },
            Token::Punct('[') => {
                let mut list = Vec::new();
                while !self.accept(']') {
                    list.push(self.value()?);
                    if !self.accept(',') {
                        self.expect(']')?;
                        break;
                    }
                }
                Ok(Value::List(list))
            }
            Token::Punct('{') => Ok(Value::Map(self.properties('}')?)),
            other => self.error(
                line,
                format!("expected a value, found {}", other.describe()),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(list: &[&str]) -> Value {
        Value::List(
            list.iter()
                .map(|s| Value::String((*s).to_owned()))
                .collect(),
        )
    }

    fn message(text: &str) -> String {
        parse("Android.bp", text).unwrap_err().to_string()
    }

    #[test]
    fn module_with_every_kind_of_value() {
        let file = parse(
            "Android.bp",
            r#"
            // A line comment, then a /* block */ one.
            /* block
               comment */
            cc_library {
                name: "libfoo",
                host_supported: true,
                level: -3,
                srcs: ["a.cc", "b\"\\.cc",],
                raw: `\d"`,
                target: { linux: { enabled: false }, },
            }
            "#,
        )
        .unwrap();
        let module = &file.modules[0];
        assert_eq!(
            (module.kind.as_str(), module.name.as_str(), module.line),
            ("cc_library", "libfoo", 5)
        );
        assert_eq!(module.properties["host_supported"], Value::Bool(true));
        assert_eq!(module.properties["level"], Value::Int(-3));
        assert_eq!(module.properties["srcs"], strings(&["a.cc", "b\"\\.cc"]));
        assert_eq!(module.properties["raw"], Value::String("\\d\"".to_owned()));
        let Value::Map(target) = &module.properties["target"] else {
            panic!()
        };
        let Value::Map(linux) = &target["linux"] else {
            panic!()
        };
        assert_eq!(linux["enabled"], Value::Bool(false));
    }

    #[test]
    fn variables_sums_and_appending() {
        let file = parse(
            "Android.bp",
            r#"
            base = ["a"]
            prefix = "lib"
            base += ["b"]
            m { name: prefix + "x", srcs: base + ["c"] + base, both: {p: ["1"]} + {p: ["2"], q: 1} }
            base += ["too late"]
            "#,
        )
        .unwrap();
        let module = &file.modules[0];
        assert_eq!(module.name, "libx");
        assert_eq!(
            module.properties["srcs"],
            strings(&["a", "b", "c", "a", "b"])
        );
        let Value::Map(both) = &module.properties["both"] else {
            panic!()
        };
        assert_eq!(both["p"], strings(&["1", "2"]));
        assert_eq!(file.variables["base"], strings(&["a", "b", "too late"]));
    }

    #[test]
    fn old_module_syntax_and_modules_without_name() {
        let file = parse("Android.bp", "cc_x(name = \"y\", n = 1)\npackage { p: [] }").unwrap();
        assert_eq!(file.modules[0].name, "y");
        assert_eq!(file.modules[1].name, "");
    }

    #[test]
    fn errors_carry_the_line() {
        assert_eq!(
            message("\n\nm {\n  srcs: [unknown],\n}"),
            "Android.bp:4: variable `unknown` is not defined"
        );
        assert_eq!(
            message("m {\n  a: 1\n  b: 2\n}"),
            "Android.bp:3: expected `}`, found `b`"
        );
        assert_eq!(
            message("a = \"x\ny\""),
            "Android.bp:1: this string has no end"
        );
        assert_eq!(
            message("\n/* never closed"),
            "Android.bp:2: this comment has no end"
        );
        assert_eq!(
            message("a = 1 + \"x\""),
            "Android.bp:1: cannot add an integer and a string"
        );
        assert_eq!(
            message("a += 1"),
            "Android.bp:1: variable `a` is not defined"
        );
        assert_eq!(
            message("m {"),
            "Android.bp:1: expected a property or `}`, found the end of the file"
        );
        assert_eq!(
            message("m { a: 1, a: 2 }"),
            "Android.bp:1: property `a` is set twice"
        );
        assert_eq!(
            message("a = 99999999999999999999"),
            "Android.bp:1: `99999999999999999999` is not a 64-bit integer"
        );
        assert_eq!(
            message("m { name: 1 }"),
            "Android.bp:1: the name of a module is an integer"
        );
    }

    #[test]
    fn deep_nesting_is_an_error_not_a_stack_overflow() {
        let text = format!("a = {}", "[".repeat(100_000));
        assert!(message(&text).contains("levels of nesting"));
    }
}
