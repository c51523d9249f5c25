// SPDX-License-Identifier: Apache-2.0
//! Methods with their instructions, from dexdump's text, which is made for people.

/// A method with dex code.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Method {
    /// `class.name(signature)`
    pub(super) name: String,
    /// `La/B;`
    pub(super) class: String,
    /// The words in `(PUBLIC BRIDGE SYNTHETIC)`.
    pub(super) flags: Vec<String>,
    /// In code units.
    pub(super) size: usize,
    /// Whether it has a try block.
    pub(super) catches: bool,
    pub(super) code: Vec<Instruction>,
}

/// An instruction.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    /// Its place in code units.
    pub(super) at: usize,
    /// `invoke-direct`
    pub(super) name: String,
    /// `{v0}, Ljava/lang/Object;.<init>:()V`
    pub(super) operands: String,
}

/// Reads the text line by line.
#[derive(Default)]
pub(super) struct Listing {
    method: Method,
    class: String,
    methods: Vec<Method>,
}

impl Listing {
    pub(super) fn line(&mut self, line: &str) {
        if let Some(instruction) = instruction(line) {
            self.method.code.push(instruction);
            return;
        }
        let Some((key, value)) = line.split_once(':') else {
            return;
        };
        let value = value.trim();
        match key.trim() {
            // The class of a method or a field: `    #0              : (in La/B;)`
            number if number.starts_with('#') => {
                self.end_method();
                let class = value.strip_prefix("(in ").and_then(|v| v.strip_suffix(')'));
                self.class = class.unwrap_or_default().to_owned();
            }
            "name" => self.method.name = quoted(value).to_owned(),
            "type" => {
                let class = self
                    .class
                    .strip_prefix('L')
                    .and_then(|c| c.strip_suffix(';'));
                let class = class.unwrap_or_default().replace('/', ".");
                self.method.name = format!("{class}.{}{}", self.method.name, quoted(value));
            }
            "access" => {
                let words = value.split_once('(').map_or("", |(_, words)| words);
                let words = words.trim_end_matches(')').split_whitespace();
                self.method.flags = words.map(str::to_owned).collect();
            }
            "insns size" => {
                let size = value.split(' ').next().and_then(|size| size.parse().ok());
                self.method.size = size.unwrap_or(usize::MAX);
            }
            "catches" => self.method.catches = value != "(none)",
            _ => {}
        }
    }

    pub(super) fn finish(mut self) -> Vec<Method> {
        self.end_method();
        self.methods
    }

    fn end_method(&mut self) {
        let mut method = std::mem::take(&mut self.method);
        if !method.code.is_empty() {
            method.class.clone_from(&self.class);
            self.methods.push(method);
        }
    }
}

fn quoted(value: &str) -> &str {
    value.trim_matches('\'')
}

/// `00eb24: 7010 5200 0000                 |0000: invoke-direct {v0}, La/B;.<init>:()V // method@0052`
fn instruction(line: &str) -> Option<Instruction> {
    let (_, text) = line.split_once("|")?;
    let (at, text) = text.split_once(": ")?;
    let at = usize::from_str_radix(at, 16).ok()?;
    // The text of a string may contain the mark of a comment.
    let text = text.rsplit_once(" // ").map_or(text, |(text, _)| text);
    let (name, operands) = text.split_once(' ').unwrap_or((text, ""));
    Some(Instruction {
        at,
        name: name.to_owned(),
        operands: operands.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Class #0            -
  Class descriptor  : 'La/B;'
  Instance fields   -
    #0              : (in La/B;)
      name          : 'x'
      type          : 'I'
      access        : 0x0002 (PRIVATE)
  Direct methods    -
    #0              : (in La/B;)
      name          : '<init>'
      type          : '()V'
      access        : 0x10001 (PUBLIC CONSTRUCTOR)
      code          -
      registers     : 1
      insns size    : 4 16-bit code units
00eb14:                                        |[00eb14] a.B.<init>:()V
00eb24: 7010 5200 0000                         |0000: invoke-direct {v0}, Ljava/lang/Object;.<init>:()V // method@0052
00eb2a: 0e00                                   |0003: return-void
      catches       : (none)
    #1              : (in La/B;)
      name          : 'n'
      type          : '()V'
      access        : 0x0101 (PUBLIC NATIVE)
      code          : (none)

  Virtual methods   -
    #0              : (in La/B;)
      name          : 'get'
      type          : '(I)Ljava/lang/String;'
      access        : 0x1041 (PUBLIC BRIDGE SYNTHETIC)
      insns size    : 17 16-bit code units
00eb40: 1a05 c800                              |0002: const-string v5, \"a | // b\" // string@00c8
00eb44: 1105                                   |0004: return-object v5
      catches       : 1
";

    #[test]
    fn a_text_is_understood() {
        let mut listing = Listing::default();
        TEXT.lines().for_each(|line| listing.line(line));
        let methods = listing.finish();
        assert_eq!(methods.len(), 2, "{methods:?}");
        let first = &methods[0];
        assert_eq!(
            (first.name.as_str(), first.class.as_str()),
            ("a.B.<init>()V", "La/B;")
        );
        assert_eq!((first.size, first.catches), (4, false));
        assert_eq!(
            first.code[0].operands,
            "{v0}, Ljava/lang/Object;.<init>:()V"
        );
        assert_eq!(
            (first.code[1].at, first.code[1].name.as_str()),
            (3, "return-void")
        );
        let second = &methods[1];
        assert_eq!(second.name, "a.B.get(I)Ljava/lang/String;");
        assert_eq!(second.flags, ["PUBLIC", "BRIDGE", "SYNTHETIC"]);
        assert_eq!(
            (second.size, second.catches, second.code.len()),
            (17, true, 2)
        );
        assert_eq!(second.code[0].name, "const-string");
    }
}
