// SPDX-License-Identifier: Apache-2.0
//! The functions of fdlibm that OpenJDK has only in Java, translated to C++.
//!
//! `FdLibm.java` was translated from C, and becomes C++ by renaming a few things. The result stays in the cache, as
//! the text is OpenJDK's.

use crate::error::{Error, Result};

const PRELUDE: &str = r#"// Translated by the lab from OpenJDK's FdLibm.java; see there for its licence.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace {

double from_bits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

uint64_t to_bits(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}

int32_t word_hi(double x) { return static_cast<int32_t>(to_bits(x) >> 32); }
int32_t word_lo(double x) { return static_cast<int32_t>(to_bits(x)); }

double word_hi(double x, int32_t high) {
  return from_bits((to_bits(x) & 0xffffffffu) | static_cast<uint64_t>(static_cast<uint32_t>(high)) << 32);
}

double word_lo(double x, int32_t low) {
  return from_bits((to_bits(x) & ~UINT64_C(0xffffffff)) | static_cast<uint32_t>(low));
}

constexpr double INFINITE = std::numeric_limits<double>::infinity();

struct Double {
  static constexpr double MAX_VALUE = std::numeric_limits<double>::max();
  static constexpr double MIN_NORMAL = std::numeric_limits<double>::min();
  static bool isFinite(double x) { return std::isfinite(x); }
  static bool isNaN(double x) { return std::isnan(x); }
};

struct Math {
  static double abs(double x) { return std::fabs(x); }
  static double sqrt(double x) { return std::sqrt(x); }
  static double powerOfTwoD(int n) { return std::ldexp(1.0, n); }
  static double scalb(double x, int n) { return std::ldexp(x, n); }
};

"#;

const EPILOGUE: &str = r#"}  // namespace

extern "C" {
__attribute__((visibility("hidden"))) double jcbrt(double x) { return Cbrt::compute(x); }
__attribute__((visibility("hidden"))) double jhypot(double x, double y) { return Hypot::compute(x, y); }
__attribute__((visibility("hidden"))) double jpow(double x, double y) { return Pow::compute(x, y); }
}
"#;

/// `cbrt`, `hypot` and `pow` of `FdLibm.java` as C++.
pub(crate) fn translate(java: &str) -> Result<String> {
    let mut text = PRELUDE.to_owned();
    for class in ["Cbrt", "Hypot", "Pow"] {
        text.push_str(&translate_class(java, class)?);
    }
    text.push_str(EPILOGUE);
    Ok(text)
}

fn translate_class(java: &str, class: &str) -> Result<String> {
    let strange = |what: &str| Error::Other(format!("FdLibm.java is not as expected: {what}"));
    let head = format!("static class {class} {{");
    let start = java
        .find(&head)
        .ok_or_else(|| strange(&format!("no class {class}")))?;
    let body = balanced(&java[start + head.len()..])
        .ok_or_else(|| strange(&format!("class {class} does not end")))?;
    let mut body = body.to_owned();
    // The constructor, which only forbids instances.
    let constructor = format!("private {class}() {{");
    if let Some(at) = body.find(&constructor) {
        let inside = balanced(&body[at + constructor.len()..])
            .map(str::len)
            .unwrap_or(0);
        body.replace_range(at..at + constructor.len() + inside + 1, "");
    }
    let mut out = format!("struct {class} {{\n");
    for line in body.lines() {
        if line.trim_start().starts_with("assert ") {
            continue;
        }
        out.push_str(&translate_line(line));
        out.push('\n');
    }
    out.push_str("};\n\n");
    for leftover in [
        "private ", "public ", "final ", "Double.", "Math.", "__HI", "__LO",
    ] {
        if code_of(&out).contains(leftover) {
            return Err(strange(&format!(
                "`{leftover}` in class {class} was not translated"
            )));
        }
    }
    Ok(out)
}

/// The text up to the brace that closes the block we are in.
fn balanced(text: &str) -> Option<&str> {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(&text[..at]);
        }
    }
    None
}

fn code_of(text: &str) -> String {
    text.lines()
        .map(|line| line.split("//").next().unwrap_or(""))
        .collect::<Vec<_>>()
        .join("\n")
}

fn translate_line(line: &str) -> String {
    let (code, comment) = match line.find("//") {
        Some(at) => line.split_at(at),
        None => (line, ""),
    };
    let code = code
        .replace("private static final ", "static constexpr ")
        .replace("public static final ", "static constexpr ")
        .replace("public static ", "static ")
        .replace("final ", "const ")
        .replace("Double.", "Double::")
        .replace("Math.", "Math::")
        .replace("__HI", "word_hi")
        .replace("__LO", "word_lo")
        .replace("INFINITY", "INFINITE")
        .replace("(long)", "(int64_t)")
        .replace(" long ", " int64_t ");
    digit_separators(&code) + comment
}

/// Removes the underscores inside of numbers.
fn digit_separators(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let mut number = false;
    let mut last = ' ';
    for c in code.chars() {
        let part_of_word = last.is_alphanumeric() || last == '_';
        if c.is_ascii_digit() && !part_of_word && last != '.' {
            number = true;
        } else if !(c.is_ascii_alphanumeric() || c == '_' || c == '.') {
            number = false;
        }
        if !(number && c == '_') {
            out.push(c);
        }
        last = c;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const JAVA: &str = r#"
class FdLibm {
    /** Text about the class. */
    public static class Cbrt {
        private static final int B1 = 715094163; /* B1 = (682-0.03306235651)*2**20 */
        private Cbrt() {
            throw new UnsupportedOperationException();
        }
        public static double compute(final double x) {
            assert x >= 0;
            if (Double.isNaN(x)) { return x; }   // private remark
            long l_long = (long) x;
            final double y1 = 0x1.7154_7652_b82fep0 + word_1;
            return __HI(Math.abs(y1), __LO(y1)) * INFINITY;
        }
    }
    public static class Hypot { int a; }
    public static class Pow { int b; }
    static class Exp { }
}
"#;

    #[test]
    fn java_becomes_cpp() {
        let cpp = translate(JAVA).unwrap();
        for expected in [
            "struct Cbrt {",
            "static constexpr int B1 = 715094163;",
            "static double compute(const double x) {",
            "Double::isNaN(x)",
            "int64_t l_long = (int64_t) x;",
            "const double y1 = 0x1.71547652b82fep0 + word_1;",
            "word_hi(Math::abs(y1), word_lo(y1)) * INFINITE;",
        ] {
            assert!(cpp.contains(expected), "{expected}\n{cpp}");
        }
        assert!(!cpp.contains("assert") && !cpp.contains("Unsupported") && !cpp.contains("Exp"));
    }

    #[test]
    fn another_file_is_an_error() {
        assert!(translate("class FdLibm { }")
            .unwrap_err()
            .to_string()
            .contains("no class Cbrt"));
        let odd = JAVA.replace("int a;", "private int a;");
        assert!(translate(&odd)
            .unwrap_err()
            .to_string()
            .contains("class Hypot"));
    }
}
