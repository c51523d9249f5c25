// SPDX-License-Identifier: Apache-2.0
//! The loop: waits for traced and for reports of hindsightd, and for nothing else.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::config::Config;
use crate::hindsightd::{Service, Watch, REQUESTED};
use crate::ipc::{reason, Command, Producer};
use crate::snapshot;

/// Name of the data source, and first part of the triggers' names.
pub const DATA_SOURCE: &str = "dev.hindsight";
/// Trigger for each report.
pub const REPORT_TRIGGER: &str = "dev.hindsight.report";
/// Shortest and longest time between two attempts to connect.
const ATTEMPTS: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(60));
/// The most instances at a time; more are not started.
const MAX_INSTANCES: usize = 64;

/// Where the sockets are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sockets {
    /// traced's for producers.
    pub traced: PathBuf,
    /// hindsightd's for commands.
    pub hindsightd: PathBuf,
}

/// Attempts to connect, further and further apart.
#[derive(Debug)]
struct Attempts {
    next: Instant,
    delay: Duration,
}

impl Attempts {
    fn new() -> Self {
        Attempts {
            next: Instant::now(),
            delay: ATTEMPTS.0,
        }
    }

    fn is_due(&self) -> bool {
        Instant::now() >= self.next
    }

    fn failed(&mut self) {
        self.next = Instant::now() + self.delay;
        self.delay = (self.delay * 2).min(ATTEMPTS.1);
    }
}

/// A session that wants the data source.
#[derive(Debug)]
struct Instance {
    config: Config,
    /// Its writer in traced's memory.
    writer: u16,
    next_chunk: u32,
    /// All is written: only the stop is missing.
    is_over: bool,
}

struct Loop {
    sockets: Sockets,
    service: Service,
    producer: Option<Producer>,
    watch: Option<Watch>,
    traced_attempts: Attempts,
    service_attempts: Attempts,
    instances: BTreeMap<u64, Instance>,
    next_writer: u16,
    /// The newest report that is known.
    report: u64,
    /// Older reports activate no trigger, CLOCK_BOOTTIME, ns.
    since_ns: u64,
}

fn log(line: &str) {
    eprintln!("hindsight-perfetto: {line}");
}

fn boottime_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writing.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Serves until the process is ended by a signal. Both other programs may come and go.
///
/// # Errors
/// If poll fails.
pub fn run(sockets: Sockets) -> io::Result<()> {
    let service = Service::new(&sockets.hindsightd);
    let mut all = Loop {
        service,
        sockets,
        producer: None,
        watch: None,
        traced_attempts: Attempts::new(),
        service_attempts: Attempts::new(),
        instances: BTreeMap::new(),
        next_writer: 1,
        report: 0,
        since_ns: boottime_ns(),
    };
    loop {
        all.connect();
        all.wait()?;
        all.serve_traced();
        all.serve_reports();
    }
}

impl Loop {
    fn connect(&mut self) {
        if self.producer.is_none() && self.traced_attempts.is_due() {
            match Producer::connect(&self.sockets.traced, DATA_SOURCE) {
                Ok(producer) => {
                    log("registered with traced");
                    self.producer = Some(producer);
                    self.traced_attempts = Attempts::new();
                }
                Err(e) => {
                    if self.traced_attempts.delay == ATTEMPTS.0 {
                        let path = self.sockets.traced.display();
                        log(&format!("{path}: {e}; tried again until traced is there"));
                    }
                    self.traced_attempts.failed();
                }
            }
        }
        if self.watch.is_none() && self.service_attempts.is_due() {
            match self.service.watch(self.report) {
                Ok(watch) => self.watch = Some(watch),
                Err(e) => {
                    if self.service_attempts.delay == ATTEMPTS.0 {
                        let path = self.sockets.hindsightd.display();
                        log(&format!(
                            "{path}: {e}; tried again until hindsightd is there"
                        ));
                    }
                    self.service_attempts.failed();
                }
            }
        }
    }

    /// Waits until one of both says something, without a limit while both are connected.
    fn wait(&mut self) -> io::Result<()> {
        let mut next: Option<Instant> = None;
        let mut entries = Vec::new();
        let mut add = |descriptor: Option<RawFd>, attempts: &Attempts| match descriptor {
            Some(fd) => entries.push(libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            }),
            None => next = Some(next.map_or(attempts.next, |n| n.min(attempts.next))),
        };
        let traced = self.producer.as_ref().map(|p| p.as_fd().as_raw_fd());
        add(traced, &self.traced_attempts);
        let watch = self.watch.as_ref().map(|w| w.as_fd().as_raw_fd());
        add(watch, &self.service_attempts);
        let mut timeout = next.map_or(-1, |next| {
            let left = next.saturating_duration_since(Instant::now());
            left.as_millis() as libc::c_int + 1
        });
        // A command that came before an answer, or nonsense, which is told when it is read next.
        let has_read_ahead = |p: &Producer| p.has_read_ahead().unwrap_or(true);
        if self.producer.as_ref().is_some_and(has_read_ahead) {
            timeout = 0;
        }
        // SAFETY: the entries are valid, and so many.
        let result = unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as _, timeout) };
        let error = io::Error::last_os_error();
        match result {
            -1 if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    fn serve_traced(&mut self) {
        while let Some(producer) = &mut self.producer {
            let done = match producer.next_command() {
                Ok(Some(command)) => self.carry_out(command),
                Ok(None) => return,
                Err(e) => Err(e),
            };
            if let Err(e) = done {
                log(&format!("the connection to traced is lost: {e}"));
                self.producer = None;
                self.instances.clear();
                self.traced_attempts.failed();
            }
        }
    }

    fn carry_out(&mut self, command: Command) -> io::Result<()> {
        match command {
            Command::Start { instance, config } => {
                let config = Config::parse(&config);
                config.problems.iter().for_each(|problem| log(problem));
                if self.instances.len() >= MAX_INSTANCES {
                    log("too many sessions: this one gets no rings");
                    return Ok(());
                }
                let writer = self.next_writer;
                self.next_writer = if writer >= 1023 { 1 } else { writer + 1 };
                let next_chunk = 0;
                let new = Instance {
                    config,
                    writer,
                    next_chunk,
                    is_over: false,
                };
                self.instances.insert(instance, new);
                log("a session has begun");
                Ok(())
            }
            Command::Flush {
                instances,
                request,
                flags,
            } => {
                if flags & 0xf != reason::PERIODIC {
                    for number in instances {
                        self.snapshot(number)?;
                        if let Some(instance) = self.instances.get_mut(&number) {
                            instance.is_over |= flags & 0xf == reason::STOP;
                        }
                    }
                }
                match &mut self.producer {
                    Some(producer) => producer.commit(&[], Some(request)),
                    None => Ok(()),
                }
            }
            Command::Stop { instance } => {
                if self.instances.get(&instance).is_some_and(|i| !i.is_over) {
                    self.snapshot(instance)?;
                }
                self.instances.remove(&instance);
                match &mut self.producer {
                    Some(producer) => producer.stopped(instance),
                    None => Ok(()),
                }
            }
            Command::Other => Ok(()),
        }
    }

    fn snapshot(&mut self, number: u64) -> io::Result<()> {
        let producer = self.producer.as_mut();
        let Some((instance, producer)) = self.instances.get_mut(&number).zip(producer) else {
            return Ok(());
        };
        let begun = Instant::now();
        let (summary, next_chunk) = snapshot::write(
            producer,
            &self.service,
            &instance.config,
            instance.writer,
            instance.next_chunk,
        )?;
        instance.next_chunk = next_chunk;
        for problem in &summary.problems {
            log(&format!("not in the trace: {problem}"));
        }
        let written = summary.written;
        log(&format!(
            "snapshot: {} processes, {} threads, {} calls, {} events, {} too deep, {} ms",
            summary.processes,
            written.threads,
            written.calls,
            written.events,
            written.deep_calls,
            begun.elapsed().as_millis()
        ));
        Ok(())
    }

    /// Activates the triggers of reports that have come.
    fn serve_reports(&mut self) {
        let is_ready = self.watch.as_ref().is_some_and(|watch| {
            let mut one = libc::pollfd {
                fd: watch.as_fd().as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: `one` is one valid entry.
            unsafe { libc::poll(&mut one, 1, 0) > 0 }
        });
        let Some(watch) = self.watch.take_if(|_| is_ready) else {
            return;
        };
        match watch.report() {
            Ok(report) => {
                self.report = report;
                self.service_attempts = Attempts::new();
                self.activate(report);
            }
            Err(e) => {
                if self.service_attempts.delay == ATTEMPTS.0 {
                    log(&format!("hindsightd tells of no reports: {e}"));
                }
                self.service_attempts.failed();
            }
        }
    }

    fn activate(&mut self, report: u64) {
        let Ok(about) = self.service.about(report) else {
            return;
        };
        let is_ours = about.detector == REQUESTED;
        if is_ours || about.boottime_ns < self.since_ns {
            return;
        }
        let by_detector = format!("{DATA_SOURCE}.{}", about.detector);
        let Some(producer) = &mut self.producer else {
            return;
        };
        match producer.trigger(&[REPORT_TRIGGER, &by_detector]) {
            Ok(()) => log(&format!("report {report}: trigger {by_detector}")),
            Err(e) => {
                log(&format!("the connection to traced is lost: {e}"));
                self.producer = None;
                self.instances.clear();
                self.traced_attempts.failed();
            }
        }
    }
}

/// The default sockets: of Android, or what Perfetto's own variable says.
pub fn default_sockets() -> Sockets {
    let traced = std::env::var_os("PERFETTO_PRODUCER_SOCK_NAME");
    Sockets {
        traced: traced.map_or_else(|| "/dev/socket/traced_producer".into(), PathBuf::from),
        hindsightd: Path::new("/dev/socket/hindsightd_commands").into(),
    }
}
