// SPDX-License-Identifier: Apache-2.0
//! The command socket of hindsightd: which processes there are, their rings, and news of reports.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longer than the service itself waits for a process.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(130);
/// Longest answer, bytes.
const MAX_ANSWER: u64 = 8 << 20;
/// Longest trace that is taken, bytes: a limit for this program's own memory.
pub const MAX_TRACE: u64 = 256 << 20;
/// The detector of reports that somebody asked for by command.
pub const REQUESTED: &str = "requested";

/// A process that hindsightd knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// By its own account.
    pub name: String,
    /// Kernel id.
    pub pid: u32,
}

/// What is known about a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The detector.
    pub detector: String,
    /// When it was noticed, CLOCK_BOOTTIME, ns.
    pub boottime_ns: u64,
}

/// Where hindsightd takes commands.
#[derive(Clone, Debug)]
pub struct Service {
    path: PathBuf,
}

fn failed(what: impl Into<String>) -> io::Error {
    io::Error::other(what.into())
}

impl Service {
    /// hindsightd whose command socket is this one; nothing is connected yet.
    pub fn new(path: &Path) -> Self {
        Service {
            path: path.to_owned(),
        }
    }

    fn send(&self, line: &str) -> io::Result<UnixStream> {
        let mut stream = UnixStream::connect(&self.path)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        stream.write_all(format!("{line}\n").as_bytes())?;
        Ok(stream)
    }

    fn ask(&self, line: &str) -> io::Result<(String, Option<File>)> {
        read_answer(self.send(line)?)
    }

    /// All processes that are connected and have recorded something.
    ///
    /// # Errors
    /// If hindsightd does not answer.
    pub fn processes(&self) -> io::Result<Vec<Process>> {
        Ok(processes(&self.ask("status")?.0))
    }

    /// Has the rings of a process taken. Returns its trace, and removes it from the service's store.
    ///
    /// # Errors
    /// If the process may not be recorded, or has nothing: what hindsightd says.
    pub fn take(&self, pid: u32) -> io::Result<Vec<u8>> {
        let (text, _) = self.ask(&format!("report {pid} snapshot of Perfetto"))?;
        let report = reports(&text);
        let report = report.first().ok_or_else(|| failed(text.trim()))?;
        let got = self.get(*report);
        let removed = self.ask(&format!("remove {report}"));
        let bytes = got?.1;
        removed?;
        Ok(bytes)
    }

    fn get(&self, report: u64) -> io::Result<(About, Vec<u8>)> {
        let (json, file) = self.ask(&format!("get {report}"))?;
        let file = file.ok_or_else(|| failed("hindsightd sent no file"))?;
        let mut bytes = Vec::new();
        file.take(MAX_TRACE + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_TRACE {
            return Err(failed("the report is too long"));
        }
        Ok((about(&json), bytes))
    }

    /// What is known about a report.
    ///
    /// # Errors
    /// If there is no such report any more.
    pub fn about(&self, report: u64) -> io::Result<About> {
        Ok(about(&self.ask(&format!("get {report}"))?.0))
    }

    /// Waits for a report with a higher number than this one: [`Watch`] becomes readable then.
    ///
    /// # Errors
    /// If hindsightd does not listen.
    pub fn watch(&self, after: u64) -> io::Result<Watch> {
        let stream = self.send(&format!("watch {after}"))?;
        Ok(Watch { stream })
    }
}

/// A wait for a report.
#[derive(Debug)]
pub struct Watch {
    stream: UnixStream,
}

impl Watch {
    /// Becomes readable when there is a report, or hindsightd has gone.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Number of the report, once it is readable.
    ///
    /// # Errors
    /// If hindsightd has gone, or knows no such command: an older one.
    pub fn report(self) -> io::Result<u64> {
        let (text, _) = read_answer(self.stream)?;
        let number = text.trim().strip_prefix("report ");
        number
            .and_then(|number| number.parse().ok())
            .ok_or_else(|| failed(format!("{text:?} names no report")))
    }
}

fn read_answer(mut stream: UnixStream) -> io::Result<(String, Option<File>)> {
    let mut first = [0; 4096];
    let (count, descriptor) = receive(stream.as_fd(), &mut first)?;
    let mut bytes = first[..count].to_vec();
    if count > 0 {
        (&mut stream).take(MAX_ANSWER).read_to_end(&mut bytes)?;
    }
    let text = String::from_utf8_lossy(&bytes);
    match text.split_once('\n') {
        Some(("ok", rest)) => Ok((rest.to_owned(), descriptor.map(File::from))),
        Some((error, _)) => Err(failed(error)),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Bytes, and a descriptor that came with them.
fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    #[repr(C, align(8))]
    struct Control([u8; 64]);
    let mut control = Control([0; 64]);
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: all zeros is a valid message header.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    let size = size_of::<libc::c_int>() as u32;
    // SAFETY: the control buffer is aligned and has room for one descriptor, and no more are accepted; all pointers live until
    // the call returns, and the kernel writes no more than the lengths say. A descriptor in the answer is new and ours.
    unsafe {
        message.msg_controllen = libc::CMSG_SPACE(size) as _;
        let count = libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC);
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        let header = libc::CMSG_FIRSTHDR(&message);
        let has_one = !header.is_null()
            && (*header).cmsg_level == libc::SOL_SOCKET
            && (*header).cmsg_type == libc::SCM_RIGHTS
            && (*header).cmsg_len as usize == libc::CMSG_LEN(size) as usize;
        let descriptor = has_one.then(|| {
            let number = libc::CMSG_DATA(header).cast::<libc::c_int>();
            OwnedFd::from_raw_fd(number.read_unaligned())
        });
        Ok((count, descriptor))
    }
}

/// The text of the first field of this name in JSON of hindsightd, which writes no blanks between its parts.
fn text_field(json: &str, name: &str) -> Option<String> {
    let start = json.find(&format!("\"{name}\":\""))? + name.len() + 4;
    let mut text = String::new();
    let mut chars = json[start..].chars();
    loop {
        match chars.next()? {
            '"' => return Some(text),
            '\\' => match chars.next()? {
                'u' => {
                    let digits: String = chars.by_ref().take(4).collect();
                    let code = u32::from_str_radix(&digits, 16).ok();
                    text.push(code.and_then(char::from_u32).unwrap_or('\u{fffd}'));
                }
                'n' => text.push('\n'),
                't' => text.push('\t'),
                other => text.push(other),
            },
            other => text.push(other),
        }
    }
}

fn number_field(json: &str, name: &str) -> Option<u64> {
    let start = json.find(&format!("\"{name}\":"))? + name.len() + 3;
    let digits = json[start..].split(|c: char| !c.is_ascii_digit()).next();
    digits?.parse().ok()
}

fn about(json: &str) -> About {
    About {
        detector: text_field(json, "detector").unwrap_or_default(),
        boottime_ns: number_field(json, "boottime_ns").unwrap_or_default(),
    }
}

/// The processes in an answer to `status`. Each begins with its name; names have no unescaped quotes, so that none looks like a
/// field.
fn processes(json: &str) -> Vec<Process> {
    let parts = json.split("{\"name\":").skip(1);
    let one = |part: &str| {
        let part = format!("{{\"name\":{part}");
        let is_connected = part.contains("\"connection\":\"connected\"");
        let records =
            number_field(&part, "rings_held") != Some(0) || !part.contains("\"events\":[]");
        let process = Process {
            name: text_field(&part, "name")?,
            pid: u32::try_from(number_field(&part, "pid")?).ok()?,
        };
        (is_connected && records).then_some(process)
    };
    parts.filter_map(one).collect()
}

/// Numbers of reports that were written, in an answer to `report`: a line of JSON for each process, whose first field is the number.
fn reports(text: &str) -> Vec<u64> {
    let lines = text
        .lines()
        .filter(|line| line.ends_with(",\"problem\":null}"));
    lines
        .filter_map(|line| number_field(line, "report"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_the_service_are_read() {
        let json = "{\"engine\":{\"processes\":[{\"name\":\"a\\\"b\\u0041\",\"pid\":12,\"uid\":0,\"connection\":\"connected\",\
            \"rings_held\":1,\"events\":[]},{\"name\":\"idle\",\"pid\":13,\"connection\":\"connected\",\"rings_held\":0,\
            \"events\":[]},{\"name\":\"gone\",\"pid\":14,\"connection\":\"ended\",\"rings_held\":2,\"events\":[]}]}}";
        let expected = Process {
            name: "a\"bA".into(),
            pid: 12,
        };
        assert_eq!(processes(json), [expected]);
        let text =
            "{\"report\":7,\"process\":\"a \\\"report\\\":9\",\"pid\":12,\"problem\":null}\n\
            {\"report\":8,\"process\":\"b\",\"pid\":13,\"problem\":\"the process ended first\"}\n\
            {\"report\":null,\"process\":\"c\",\"pid\":14,\"problem\":\"it got no ring\"}\n";
        assert_eq!(reports(text), [7]);
        assert!(reports("report 7 of a (pid 12): written\n").is_empty());
        let about = about("{\"detector\":\"killed\",\"boottime_ns\":99,\"x\":1}");
        assert_eq!((about.detector.as_str(), about.boottime_ns), ("killed", 99));
        assert_eq!(text_field("{\"detector\":\"cut", "detector"), None);
    }
}
