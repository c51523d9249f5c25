// SPDX-License-Identifier: Apache-2.0
//! The log: lines on stderr, not too many of them.

use std::io::Write;

use crate::text::one_line;

/// Lines that are written at once, and the time for each further one, ns: processes cause them, and must not fill the log.
const BURST: u32 = 200;
const LINE_NS: u64 = 500_000_000;
/// Longest line, bytes.
const MAX_LINE: usize = 1500;

/// Where lines go.
pub struct Log {
    out: Box<dyn Write>,
    lines: u32,
    at: u64,
    left_out: u64,
}

impl Log {
    /// Writes to `out`.
    pub fn new(out: Box<dyn Write>) -> Self {
        Log {
            out,
            lines: BURST,
            at: 0,
            left_out: 0,
        }
    }

    /// Writes a line at this time, `CLOCK_BOOTTIME`, ns, or counts it if there were too many.
    pub fn line(&mut self, boottime_ns: u64, line: &str) {
        let earned = boottime_ns.saturating_sub(self.at) / LINE_NS;
        self.at += earned * LINE_NS;
        self.lines = u64::from(self.lines)
            .saturating_add(earned)
            .min(u64::from(BURST)) as u32;
        if self.lines == 0 {
            self.left_out += 1;
            return;
        }
        self.lines -= 1;
        if self.left_out != 0 {
            let left_out = std::mem::take(&mut self.left_out);
            self.write(&format!("{left_out} lines left out: there were too many"));
        }
        self.write(line);
    }

    fn write(&mut self, line: &str) {
        let mut line = one_line(line);
        let mut end = line.len().min(MAX_LINE);
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        line.truncate(end);
        // Nobody is there to be told that the log is broken.
        let _ = writeln!(self.out, "hindsightd: {line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn too_many_lines_are_counted_and_none_is_more_than_one() {
        let lines = Lines::default();
        let mut log = Log::new(Box::new(lines.clone()));
        for _ in 0..300 {
            log.line(LINE_NS, "x\nhindsightd: y");
        }
        log.line(2 * LINE_NS, &"ä".repeat(2000));
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), BURST as usize + 2);
        assert!(text.starts_with("hindsightd: x\\nhindsightd: y\n"));
        assert!(text.contains("hindsightd: 100 lines left out"));
        assert!(text.lines().all(|line| line.len() < 2 * MAX_LINE));
    }
}
