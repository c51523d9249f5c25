// SPDX-License-Identifier: Apache-2.0
//! The methods of an oat file, with the addresses of their code and the number of returns in their dex code, from
//! oatdump, which knows nothing of trace points; and the code itself, from the ELF file.

use std::fs;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{bail, ensure, Context as _, Result};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

/// The oat header's key with the form of trace points and the offsets of the thread's words.
const TRACE_POINTS_KEY: &str = "hindsight-trace-points";

/// A method with compiled code.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Method {
    pub(super) name: String,
    /// Return instructions in the dex code; `None` for a native method, which has no dex code.
    pub(super) dex_returns: Option<usize>,
    /// The range of its code in [`OatFile::text`]. Methods of equal code share it.
    pub(super) code: Range<usize>,
}

/// An oat file.
pub(super) struct OatFile {
    /// The header's value of [`TRACE_POINTS_KEY`], if it has one.
    pub(super) trace_points: Option<String>,
    /// All of the machine code, including trampolines and thunks between the methods.
    pub(super) text: Vec<u8>,
    pub(super) methods: Vec<Method>,
}

/// Reads an oat file with `oatdump`, a command without arguments.
pub(super) fn read(mut oatdump: Command, path: &Path) -> Result<OatFile> {
    let file = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let elf = object::File::parse(&*file)
        .with_context(|| format!("{} is no ELF file", path.display()))?;
    let oat_data = elf
        .dynamic_symbols()
        .find(|symbol| symbol.name() == Ok("oatdata"))
        .with_context(|| format!("{} has no symbol oatdata: no oat file", path.display()))?
        .address();
    let text = elf
        .section_by_name(".text")
        .with_context(|| format!("{} has no compiled code", path.display()))?;
    let text_start = text.address().wrapping_sub(oat_data);

    let mut option = std::ffi::OsString::from("--oat-file=");
    option.push(path);
    oatdump
        .arg(option)
        .args(["--no-disassemble", "--no-dump:vmap"]);
    let mut child = oatdump
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot run {:?}", oatdump.get_program()))?;
    let mut parser = Parser::default();
    let stdout = child.stdout.take().context("oatdump has no output")?;
    let mut reader = BufReader::with_capacity(1 << 20, stdout);
    let mut line = Vec::new();
    while reader
        .read_until(b'\n', &mut line)
        .context("cannot read oatdump's output")?
        > 0
    {
        parser.line(String::from_utf8_lossy(&line).trim_end_matches('\n'))?;
        line.clear();
    }
    let status = child.wait().context("cannot wait for oatdump")?;
    ensure!(status.success(), "oatdump of {}: {status}", path.display());

    let text = text
        .data()
        .with_context(|| format!("{}: no .text", path.display()))?
        .to_vec();
    let mut methods = parser.finish();
    for method in &mut methods {
        let start = (method.code.start as u64).wrapping_sub(text_start) as usize;
        let end = start.saturating_add(method.code.len());
        if end > text.len() {
            bail!(
                "{}: the code of {} is not in .text",
                path.display(),
                method.name
            );
        }
        method.code = start..end;
    }
    ensure!(
        !methods.is_empty(),
        "{} has no compiled methods",
        path.display()
    );
    Ok(OatFile {
        trace_points: parser_trace_points(&parser.keys),
        text,
        methods,
    })
}

fn parser_trace_points(keys: &[(String, String)]) -> Option<String> {
    keys.iter()
        .find(|(key, _)| key == TRACE_POINTS_KEY)
        .map(|(_, value)| value.clone())
}

/// Reads oatdump's text, which is made for people.
#[derive(Default)]
struct Parser {
    in_keys: bool,
    keys: Vec<(String, String)>,
    name: String,
    dex_returns: Option<usize>,
    methods: Vec<Method>,
}

impl Parser {
    fn line(&mut self, line: &str) -> Result<()> {
        if line == "KEY VALUE STORE:" {
            self.in_keys = true;
        } else if line.is_empty() {
            self.in_keys = false;
        } else if self.in_keys {
            if let Some((key, value)) = line.split_once(" = ") {
                self.keys.push((key.to_owned(), value.to_owned()));
            }
        } else if let Some(name) = method_name(line) {
            self.name = name.to_owned();
            self.dex_returns = None;
        } else if let Some(instruction) = dex_instruction(line) {
            let returns = self.dex_returns.get_or_insert(0);
            *returns += usize::from(instruction.starts_with("return"));
        } else if let Some(code) = line.strip_prefix("    CODE: (code_offset=") {
            let range = code_range(code)
                .with_context(|| format!("cannot parse a line of oatdump: {line:?}"))?;
            if !range.is_empty() {
                self.methods.push(Method {
                    name: self.name.clone(),
                    dex_returns: self.dex_returns,
                    code: range,
                });
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Vec<Method> {
        std::mem::take(&mut self.methods)
    }
}

/// `  12: int a.B.c(int) (dex_method_idx=3)`
fn method_name(line: &str) -> Option<&str> {
    let rest = line
        .strip_prefix("  ")?
        .trim_start_matches(|c: char| c.is_ascii_digit());
    let (name, _) = rest.strip_prefix(": ")?.split_once(" (dex_method_idx=")?;
    Some(name)
}

/// `      0x0007: 0e00                      | return-void`, with a tab
fn dex_instruction(line: &str) -> Option<&str> {
    let (_, instruction) = line.strip_prefix("      0x")?.split_once("\t| ")?;
    Some(instruction)
}

/// `0x00035010 size_offset=0x0003500c size=106)...`; the offset of Thumb code is odd.
fn code_range(text: &str) -> Option<Range<usize>> {
    let start = text.split(' ').next()?.strip_prefix("0x")?;
    let start = usize::from_str_radix(start, 16).ok()? & !1;
    let (_, size) = text.split_once(" size=")?;
    let size: usize = size.split(')').next()?.parse().ok()?;
    Some(start..start.checked_add(size)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP: &str = "\
KEY VALUE STORE:
compiler-filter = speed
hindsight-trace-points = shared-1/cursor@8,poll@24

SIZE:
OatDexFile:
0: La/B; (offset=0x000017c0) (type_idx=30) (Initialized) (OatClassAllCompiled)
  0: int a.B.c(int) (dex_method_idx=41)
    DEX CODE:
      0x0000: 7010 2a04 0000           \t| invoke-direct {v0}, void a.B.return() // method@1066
      0x0007: 0f00                     \t| return v0
      0x0008: 0f01                     \t| return v1
    CODE: (code_offset=0x00035010 size_offset=0x0003500c size=106)...
  1: native int a.B.d() (dex_method_idx=42)
    DEX CODE:
    CODE: (code_offset=0x00035091 size_offset=0x0003500c size=20)...
  2: int a.B.e() (dex_method_idx=43)
    DEX CODE:
      0x0000: 2700                     \t| throw v0
    CODE: (code_offset=0x00000000 size_offset=0x00000000 size=0)
      NO CODE!
";

    #[test]
    fn a_dump_is_understood() {
        let mut parser = Parser::default();
        for line in DUMP.lines() {
            parser.line(line).unwrap();
        }
        assert_eq!(
            parser_trace_points(&parser.keys).as_deref(),
            Some("shared-1/cursor@8,poll@24")
        );
        let methods = parser.finish();
        let expected = [
            ("int a.B.c(int)", Some(2), 0x35010..0x3507a),
            ("native int a.B.d()", None, 0x35090..0x350a4),
        ];
        assert_eq!(methods.len(), expected.len(), "{methods:?}");
        for (method, (name, dex_returns, code)) in methods.iter().zip(expected) {
            assert_eq!(
                (method.name.as_str(), method.dex_returns, &method.code),
                (name, dex_returns, &code)
            );
        }
    }

    #[test]
    fn nonsense_is_an_error() {
        let line = "    CODE: (code_offset=many size_offset=0x0 size=1)";
        assert!(Parser::default().line(line).is_err());
    }
}
