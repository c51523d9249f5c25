// SPDX-License-Identifier: Apache-2.0
//! The answers as text, which people can read before it leaves the device.

use std::fmt::{self, Display};

use crate::causes::{Cause, Other};
use crate::question::Answer;

/// Longest name in the text, characters.
const MAX_NAME: usize = 200;

/// A name without line ends and characters that a terminal obeys.
struct Name<'a>(&'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        for c in self.0.chars().take(MAX_NAME) {
            f.write_char(if c.is_control() { '?' } else { c })?;
        }
        Ok(())
    }
}

/// Milliseconds with three places.
struct Ms(u64);

impl Display for Ms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03} ms", self.0 / 1_000_000, self.0 / 1000 % 1000)
    }
}

impl Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let other = match self.other {
            Other::HeldTheLock => "  another thread held it",
            Other::EndedTheWait => "  another thread ended it",
            Other::Unknown => "",
        };
        writeln!(f, "  {}  {}{other}", Ms(self.ns), self.kind)?;
        for link in &self.meanwhile {
            writeln!(f, "    {}  {}", Ms(link.ns), Name(&link.name))?;
        }
        Ok(())
    }
}

impl Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let t = &self.threads;
        writeln!(
            f,
            "rings {} left-out {} span {}",
            t.rings,
            t.left_out,
            Ms(t.span_ns)
        )?;
        writeln!(f, "too-deep {} begun-before {}", t.too_deep, t.begun_before)?;
        writeln!(f, "\nmethods by self time: self, calls, longest call, name")?;
        for m in &self.methods {
            let (own, longest) = (Ms(m.self_ns), Ms(m.longest_ns));
            writeln!(f, "  {own}  {}  {longest}  {}", m.calls, Name(&m.name))?;
        }
        let o = &self.others;
        writeln!(
            f,
            "  {}  {}  {}  (all others)",
            Ms(o.self_ns),
            o.calls,
            Ms(o.longest_ns)
        )?;
        writeln!(f, "\nlongest call, and the longest call inside each")?;
        for link in &self.chain {
            writeln!(f, "  {}  {}", Ms(link.ns), Name(&link.name))?;
        }
        writeln!(
            f,
            "\nwhat that waited for, and what the other thread did meanwhile"
        )?;
        self.causes.iter().try_for_each(|cause| cause.fmt(f))?;
        writeln!(f, "\nsignatures: matched, calls, total, longest, name")?;
        for s in &self.signatures {
            let is = if s.is_matched { "yes" } else { "no" };
            let (total, longest) = (Ms(s.total_ns), Ms(s.longest_ns));
            writeln!(
                f,
                "  {is}  {}  {total}  {longest}  {}",
                s.calls,
                Name(&s.name)
            )?;
        }
        Ok(())
    }
}
