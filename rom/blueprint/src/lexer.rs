// SPDX-License-Identifier: Apache-2.0
//! Splits Blueprint text into tokens.

use crate::error::{Error, Result};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    Ident(String),
    Str(String),
    Int(i64),
    /// One of `{ } [ ] ( ) : , = +`.
    Punct(char),
    /// `+=`
    PlusAssign,
    End,
}

impl Token {
    /// The token's name in an error message.
    pub(crate) fn describe(&self) -> String {
        match self {
            Token::Ident(s) => format!("`{s}`"),
            Token::Str(s) => format!("\"{s}\""),
            Token::Int(i) => format!("`{i}`"),
            Token::Punct(c) => format!("`{c}`"),
            Token::PlusAssign => "`+=`".to_owned(),
            Token::End => "the end of the file".to_owned(),
        }
    }
}

/// A token and its first line, counted from 1.
pub(crate) type Lexeme = (Token, usize);

/// All tokens of `text`, the last one being [`Token::End`].
pub(crate) fn tokens(file: &str, text: &str) -> Result<Vec<Lexeme>> {
    let mut lexer = Lexer {
        file,
        chars: text.chars().peekable(),
        line: 1,
    };
    let mut all = Vec::new();
    loop {
        let lexeme = lexer.next()?;
        let end = lexeme.0 == Token::End;
        all.push(lexeme);
        if end {
            return Ok(all);
        }
    }
}

struct Lexer<'a> {
    file: &'a str,
    chars: std::iter::Peekable<std::str::Chars<'a>>,
    line: usize,
}

impl Lexer<'_> {
    fn error<T>(&self, line: usize, message: impl Into<String>) -> Result<T> {
        Err(Error::Syntax {
            file: self.file.to_owned(),
            line,
            message: message.into(),
        })
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.chars.next();
        if c == Some('\n') {
            self.line += 1;
        }
        c
    }

    fn next(&mut self) -> Result<Lexeme> {
        loop {
            let line = self.line;
            let Some(c) = self.bump() else {
                return Ok((Token::End, line));
            };
            let token = match c {
                _ if c.is_whitespace() => continue,
                '/' => {
                    self.comment(line)?;
                    continue;
                }
                '"' => self.string(line)?,
                '`' => self.raw_string(line)?,
                '{' | '}' | '[' | ']' | '(' | ')' | ':' | ',' | '=' => Token::Punct(c),
                '+' if self.chars.peek() == Some(&'=') => {
                    self.bump();
                    Token::PlusAssign
                }
                '+' => Token::Punct(c),
                '-' | '0'..='9' => self.integer(c, line)?,
                _ if c.is_alphabetic() || c == '_' => {
                    let mut name = String::from(c);
                    while let Some(&c) = self.chars.peek() {
                        if !(c.is_alphanumeric() || c == '_') {
                            break;
                        }
                        name.push(c);
                        self.bump();
                    }
                    Token::Ident(name)
                }
                _ => return self.error(line, format!("unexpected character {c:?}")),
            };
            return Ok((token, line));
        }
    }

    fn comment(&mut self, line: usize) -> Result<()> {
        match self.bump() {
            Some('/') => {
                while let Some(c) = self.bump() {
                    if c == '\n' {
                        break;
                    }
                }
                Ok(())
            }
            Some('*') => {
                let mut last = ' ';
                while let Some(c) = self.bump() {
                    if last == '*' && c == '/' {
                        return Ok(());
                    }
                    last = c;
                }
                self.error(line, "this comment has no end")
            }
            _ => self.error(line, "expected a comment after `/`"),
        }
    }

    fn string(&mut self, line: usize) -> Result<Token> {
        let mut text = String::new();
        loop {
            match self.bump() {
                Some('"') => return Ok(Token::Str(text)),
                Some('\n') | None => return self.error(line, "this string has no end"),
                Some('\\') => match self.bump() {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    Some(c @ ('"' | '\\' | '\'')) => text.push(c),
                    Some(c) => return self.error(line, format!("unknown escape `\\{c}`")),
                    None => return self.error(line, "this string has no end"),
                },
                Some(c) => text.push(c),
            }
        }
    }

    fn raw_string(&mut self, line: usize) -> Result<Token> {
        let mut text = String::new();
        while let Some(c) = self.bump() {
            if c == '`' {
                return Ok(Token::Str(text));
            }
            text.push(c);
        }
        self.error(line, "this raw string has no end")
    }

    fn integer(&mut self, first: char, line: usize) -> Result<Token> {
        let mut text = String::from(first);
        while let Some(c) = self.chars.next_if(char::is_ascii_digit) {
            text.push(c);
        }
        match text.parse() {
            Ok(i) => Ok(Token::Int(i)),
            Err(_) => self.error(line, format!("`{text}` is not a 64-bit integer")),
        }
    }
}
