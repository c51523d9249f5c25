// SPDX-License-Identifier: Apache-2.0
//! Signatures: stacks of calls that are known to be slow, and how slow.

/// The most signatures that are looked for at once.
pub const MAX_SIGNATURES: usize = 32;
/// The most patterns of a stack.
pub const MAX_PATTERNS: usize = 64;
/// Any number of calls in between.
const ANY_CALLS: &str = "...";

/// A limit that a matching call must exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The fewest matching calls.
    pub calls: u64,
    /// The longest of them took at least this time, ns.
    pub longest_ns: u64,
    /// Together they took at least this time, ns.
    pub total_ns: u64,
}

impl Default for Condition {
    fn default() -> Self {
        Condition {
            calls: 1,
            longest_ns: 0,
            total_ns: 0,
        }
    }
}

/// A signature cannot be looked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("signature \"{0}\": {1}")]
pub struct SignatureError(String, &'static str);

/// A stack of calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    pub(crate) name: String,
    pub(crate) condition: Condition,
    patterns: Vec<String>,
    /// Bits of patterns with any number of calls before them.
    after_gap: u64,
}

impl Signature {
    /// From patterns of methods, callers first, as in files for `hindsight match`: `*` is any characters, `?` one, and `...`
    /// instead of a pattern any number of calls.
    ///
    /// # Errors
    /// If there is no pattern, there are too many, or the last one is `...`.
    pub fn new(name: &str, stack: &[String], condition: Condition) -> Result<Self, SignatureError> {
        let wrong = |why| Err(SignatureError(name.to_owned(), why));
        let mut patterns: Vec<String> = Vec::new();
        let mut after_gap = 0;
        let mut is_gap = false;
        for pattern in stack {
            if pattern == ANY_CALLS {
                is_gap = true;
                continue;
            }
            if patterns.len() == MAX_PATTERNS {
                return wrong("its stack has more than 64 patterns");
            }
            after_gap |= u64::from(is_gap) << patterns.len();
            is_gap = false;
            patterns.push(pattern.clone());
        }
        match (patterns.is_empty(), is_gap) {
            (true, _) => wrong("its stack has no pattern of a method"),
            (_, true) => {
                wrong("its stack ends with \"...\": end it with the method that is measured")
            }
            _ => Ok(Signature {
                name: name.to_owned(),
                condition,
                patterns,
                after_gap,
            }),
        }
    }

    /// Bits of the patterns that a method's name matches.
    pub(crate) fn matching(&self, method: &str) -> u64 {
        let patterns = self.patterns.iter().enumerate();
        patterns.fold(0, |bits, (i, pattern)| {
            bits | u64::from(fits(pattern.as_bytes(), method.as_bytes())) << i
        })
    }

    /// The state of a call, from its caller's and from the bits of its method.
    pub(crate) fn enter(&self, caller: Matched, method: u64) -> Matched {
        let direct = caller.here << 1 & !self.after_gap;
        let distant = caller.above << 1 & self.after_gap;
        let here = method & (1 | direct | distant);
        Matched {
            here,
            above: caller.above | here,
        }
    }

    /// Whether the call is one of the signature.
    pub(crate) fn is_matched(&self, bits: u64) -> bool {
        bits >> (self.patterns.len() - 1) & 1 != 0
    }
}

/// Patterns of a signature that are matched, in order, up to a call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Matched {
    /// The last of them by the call itself.
    pub(crate) here: u64,
    /// By the call or by one that it is inside of.
    pub(crate) above: u64,
}

/// Whether a text fits a pattern. Takes at most the product of both lengths.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(b) if *b == b'?' || *b == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|b| *b == b'*')
}

/// The calls of a signature.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Its name.
    pub name: String,
    /// Number of calls.
    pub calls: u64,
    /// Their time together, ns.
    pub total_ns: u64,
    /// Time of the longest, ns.
    pub longest_ns: u64,
    /// Whether its conditions hold.
    pub is_matched: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_fit_patterns() {
        for (pattern, text, is) in [
            ("a.b", "a.b", true),
            ("a.*", "a.b.c", true),
            ("*.c", "a.b.c", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*b*", "abc", true),
            ("", "a", false),
            ("*", "", true),
            ("*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaac", false),
        ] {
            assert_eq!(fits(pattern.as_bytes(), text.as_bytes()), is, "{pattern}");
        }
    }

    #[test]
    fn stacks_without_a_method_to_measure_are_refused() {
        let of = |stack: &[&str]| {
            let stack: Vec<String> = stack.iter().map(|s| (*s).to_owned()).collect();
            Signature::new("s", &stack, Condition::default())
        };
        assert!(of(&[]).is_err() && of(&["..."]).is_err() && of(&["a", "..."]).is_err());
        assert!(of(&["..."; 99]).is_err() && of(&["a"; 65]).is_err());
        assert!(of(&["...", "a"]).is_ok() && of(&["a"; 64]).is_ok());
    }
}
