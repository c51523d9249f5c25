// SPDX-License-Identifier: Apache-2.0
//! Lines of a process's log, from Android's logd: what its reader socket sends, and the newest lines of it. Each packet may be
//! anything.

use std::collections::VecDeque;
use std::fmt::Write as _;

use crate::policy::Level;
use crate::text::{one_line, quoted};

/// The most bytes of lines in a report.
pub const MAX_LOG_BYTES: usize = 64 << 10;
/// Longest line, bytes; longer ones are cut. logd has at most about 4000.
const MAX_LINE: usize = 4096;
/// Length of the header with the user id. Shorter ones, without it, are of clients that logd does not trust.
const HEADER_BYTES: usize = 28;
/// Buffers with texts: main, system, crash. The others have binary events.
const TEXT_BUFFERS: [u32; 3] = [0, 3, 4];
/// Letters of priorities, from number 2 on.
const PRIORITIES: [char; 6] = ['V', 'D', 'I', 'W', 'E', 'F'];

/// Which lines are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogRequest {
    /// Kernel id of the process.
    pub pid: u32,
    /// Its user: lines of another user are of another process that had the id.
    pub uid: u32,
    /// When the report's reason was noticed, ns since 1970: times of lines are told from there.
    pub report_ns: u64,
    /// Lines from here on, ns since 1970; also those after the report's reason, as far as logd has them.
    pub since_ns: u64,
    /// The most bytes of lines; the newest are kept.
    pub bytes: usize,
}

impl LogRequest {
    /// What logd is told, to send all lines of the process that it has, and then to close the connection.
    pub fn command(&self) -> String {
        let lids = TEXT_BUFFERS.map(|lid| lid.to_string()).join(",");
        format!("dumpAndClose lids={lids} pid={}", self.pid)
    }
}

/// Why a packet is no line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// It is shorter than its header.
    #[error("a packet is too short")]
    Short,
    /// Its header has another length than this program knows, or none.
    #[error("a header has {0} bytes: the service is not in group log, or logd is too old")]
    Header(u16),
    /// It has fewer bytes than it says.
    #[error("a packet is cut")]
    Cut,
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine<'a> {
    /// Kernel id of the process.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Number of the buffer.
    pub buffer: u32,
    /// ns since 1970.
    pub realtime_ns: u64,
    /// Priority, tag and message: one byte, then two texts that end with 0.
    payload: &'a [u8],
}

fn u32_at(packet: &[u8], at: usize) -> Result<u32, LineError> {
    let bytes = packet.get(at..at + 4).ok_or(LineError::Short)?;
    Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

fn u16_at(packet: &[u8], at: usize) -> Result<u16, LineError> {
    let bytes = packet.get(at..at + 2).ok_or(LineError::Short)?;
    Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
}

impl<'a> LogLine<'a> {
    /// From a packet of logd.
    ///
    /// # Errors
    /// If it is no entry with a user id.
    pub fn parse(packet: &'a [u8]) -> Result<Self, LineError> {
        let (length, header) = (u16_at(packet, 0)?, u16_at(packet, 2)?);
        if usize::from(header) < HEADER_BYTES {
            return Err(LineError::Header(header));
        }
        let begin = usize::from(header);
        let payload = packet.get(begin..begin + usize::from(length));
        let (seconds, ns) = (u32_at(packet, 12)?, u32_at(packet, 16)?);
        Ok(LogLine {
            pid: u32_at(packet, 4)?,
            realtime_ns: u64::from(seconds) * 1_000_000_000 + u64::from(ns.min(999_999_999)),
            buffer: u32_at(packet, 20)?,
            uid: u32_at(packet, 24)?,
            payload: payload.ok_or(LineError::Cut)?,
        })
    }

    /// For people: priority and tag, and each line of the message. Nothing in it ends a line or is obeyed by a terminal.
    fn texts(&self) -> impl Iterator<Item = String> + '_ {
        let (priority, rest) = self.payload.split_first().unwrap_or((&0, &[]));
        let mut parts = rest.splitn(2, |byte| *byte == 0);
        let tag = String::from_utf8_lossy(parts.next().unwrap_or_default());
        let message = parts.next().unwrap_or_default();
        let end = message.iter().position(|byte| *byte == 0);
        let message = &message[..end.unwrap_or(message.len())];
        let letter = usize::from(*priority).checked_sub(2);
        let letter = letter.and_then(|at| PRIORITIES.get(at)).unwrap_or(&'?');
        let begin = format!("{letter}/{}: ", one_line(&tag));
        let lines = message.split(|byte| *byte == b'\n');
        let lines = lines.filter(|line| !line.is_empty());
        lines.map(move |line| format!("{begin}{}", one_line(&String::from_utf8_lossy(line))))
    }
}

/// The newest lines of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogExcerpt {
    /// Lines, oldest first.
    pub lines: Vec<String>,
    /// Older lines that found no room.
    pub left_out: u64,
}

impl LogExcerpt {
    /// The level that lines need: programs compose them, so they may have anything in them.
    pub const LEVEL: Level = Level::Full;

    pub(super) fn to_toml(&self) -> String {
        let mut text = format!("[log]\nleft_out = {}\nlines = [\n", self.left_out);
        for line in &self.lines {
            let _ = writeln!(text, "  {},", quoted(line));
        }
        text.push_str("]\n");
        text
    }
}

/// Collects the newest lines, in bounded memory.
#[derive(Debug)]
pub(crate) struct Collector {
    request: LogRequest,
    lines: VecDeque<String>,
    bytes: usize,
    left_out: u64,
}

impl Collector {
    /// Nothing yet.
    pub(crate) fn new(mut request: LogRequest) -> Self {
        request.bytes = request.bytes.min(MAX_LOG_BYTES);
        Collector {
            request,
            lines: VecDeque::new(),
            bytes: 0,
            left_out: 0,
        }
    }

    /// Adds an entry, if it is wanted. Each line begins with its time: seconds from the report's reason on.
    pub(crate) fn add(&mut self, line: &LogLine<'_>) {
        let request = &self.request;
        let is_it = line.pid == request.pid && line.uid == request.uid;
        if !is_it || line.realtime_ns < request.since_ns || !TEXT_BUFFERS.contains(&line.buffer) {
            return;
        }
        let sign = if line.realtime_ns < request.report_ns {
            '-'
        } else {
            '+'
        };
        let ms = line.realtime_ns.abs_diff(request.report_ns) / 1_000_000;
        for text in line.texts() {
            let mut text = format!("{sign}{}.{:03} {text}", ms / 1000, ms % 1000);
            cut(&mut text, MAX_LINE);
            self.bytes += text.len() + 1;
            self.lines.push_back(text);
            while self.bytes > self.request.bytes {
                let Some(oldest) = self.lines.pop_front() else {
                    break;
                };
                self.bytes -= oldest.len() + 1;
                self.left_out += 1;
            }
        }
    }

    /// The lines.
    pub(crate) fn finish(self) -> LogExcerpt {
        LogExcerpt {
            lines: self.lines.into(),
            left_out: self.left_out,
        }
    }
}

/// Cuts a text at a character.
fn cut(text: &mut String, most: usize) {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(pid: u32, uid: u32, at_ns: u64, buffer: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = (payload.len() as u16).to_le_bytes().to_vec();
        bytes.extend((HEADER_BYTES as u16).to_le_bytes());
        let (seconds, ns) = (
            (at_ns / 1_000_000_000) as u32,
            (at_ns % 1_000_000_000) as u32,
        );
        for number in [pid, pid + 1, seconds, ns, buffer, uid] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(payload);
        bytes
    }

    const WANTED: LogRequest = LogRequest {
        pid: 7,
        uid: 10_001,
        report_ns: 400_000_000_000,
        since_ns: 100_000_000_000,
        bytes: MAX_LOG_BYTES,
    };

    fn collect(request: LogRequest, packets: &[Vec<u8>]) -> LogExcerpt {
        let mut collector = Collector::new(request);
        for packet in packets {
            if let Ok(line) = LogLine::parse(packet) {
                collector.add(&line);
            }
        }
        collector.finish()
    }

    #[test]
    fn only_lines_of_the_process_and_of_the_time_are_kept() {
        let text = b"\x06Notes\0first\nsecond \x1b[31m\0";
        let at = 398_750_000_000;
        let packets = [
            packet(7, 10_001, at, 0, text),
            packet(7, 10_002, at, 0, b"\x06T\0another user\0"),
            packet(8, 10_001, at, 0, b"\x06T\0another process\0"),
            packet(7, 10_001, 99_999_999_999, 0, b"\x06T\0too old\0"),
            packet(7, 10_001, 402_007_000_000, 0, b"\x07T\0the end\0"),
            packet(7, 10_001, at, 2, b"\x06T\0binary\0"),
            packet(7, 10_001, at, 4, b"\x09T\0unknown priority"),
            packet(7, 10_001, at, 3, b""),
        ];
        let lines = collect(WANTED, &packets).lines;
        let expected = [
            "-1.250 E/Notes: first",
            "-1.250 E/Notes: second \\u{1b}[31m",
            "+2.007 F/T: the end",
            "-1.250 ?/T: unknown priority",
        ];
        assert_eq!(lines, expected);
        assert_eq!(WANTED.command(), "dumpAndClose lids=0,3,4 pid=7");
    }

    #[test]
    fn a_packet_without_a_user_or_with_wrong_lengths_is_no_line() {
        let good = packet(7, 10_001, 0, 0, b"\x04T\0m\0");
        assert!(LogLine::parse(&good).is_ok());
        for length in 0..good.len() {
            assert!(LogLine::parse(&good[..length]).is_err(), "{length}");
        }
        let mut version_3 = good.clone();
        version_3[2] = 24;
        assert_eq!(LogLine::parse(&version_3), Err(LineError::Header(24)));
        let mut giant = good.clone();
        giant[..4].copy_from_slice(&[0xff; 4]);
        assert_eq!(LogLine::parse(&giant), Err(LineError::Cut));
    }

    #[test]
    fn the_newest_lines_are_kept_when_there_are_too_many() {
        let request = LogRequest {
            bytes: 100,
            ..WANTED
        };
        let line = |i: u64| {
            let text = format!("\x04T\0line {i}\0");
            packet(7, 10_001, 300_000_000_000 + i, 0, text.as_bytes())
        };
        let packets: Vec<_> = (0..1000).map(line).collect();
        let excerpt = collect(request, &packets);
        assert!(excerpt.lines.last().unwrap().ends_with("line 999"));
        let bytes: usize = excerpt.lines.iter().map(|line| line.len() + 1).sum();
        assert!(bytes <= 100 && bytes > 50, "{bytes}");
        assert_eq!(excerpt.left_out, 1000 - excerpt.lines.len() as u64);
    }

    proptest! {
        #[test]
        fn whatever_logd_sends_the_excerpt_has_bounds(
            packets in proptest::collection::vec(
                prop_oneof![
                    proptest::collection::vec(any::<u8>(), 0..200),
                    proptest::collection::vec(any::<u8>(), 0..6000)
                        .prop_map(|payload| packet(7, 10_001, 300_000_000_000, 0, &payload)),
                ],
                0..40,
            ),
            most in 0..MAX_LOG_BYTES * 2,
        ) {
            let excerpt = collect(LogRequest { bytes: most, ..WANTED }, &packets);
            let bytes: usize = excerpt.lines.iter().map(|line| line.len() + 1).sum();
            prop_assert!(bytes <= most.min(MAX_LOG_BYTES));
            prop_assert!(excerpt.lines.iter().all(|line| !line.contains(char::is_control)));
        }
    }
}
