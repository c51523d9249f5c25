// SPDX-License-Identifier: Apache-2.0
//! The data source `linux.ftrace`, as far as the scheduler goes: traced_probes, which records it on a device, is not in Perfetto's
//! crate. The events are real ones, of an instance of tracefs of its own; its text has times in µs. As traced_probes does, it empties
//! the kernel's buffers all the time, each event once: to read them and then to clear them loses what happens in between.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result};
use hindsight_perfetto_source::config::Config;
use hindsight_perfetto_source::ipc::{reason, Command, Producer};
use hindsight_perfetto_source::packets::Sink as _;
use hindsight_perfetto_source::proto::Message;
use hindsight_perfetto_source::snapshot::Chunks;

/// Events in a packet: it must fit into a page.
const EVENTS_A_PACKET: usize = 64;

/// An instance of tracefs, which is removed when this is dropped.
struct Tracefs {
    mount: PathBuf,
    instance: PathBuf,
    /// What each processor has recorded; an event is read once.
    pipes: Vec<File>,
}

impl Tracefs {
    /// Mounts tracefs in a folder, and makes an instance that records sched_switch. The error says why the kernel does not let us.
    fn new(folder: &Path) -> Result<Self> {
        let mount = folder.join("tracefs");
        fs::create_dir_all(&mount)?;
        let target = CString::new(mount.as_os_str().as_bytes())?;
        // SAFETY: all are C strings that live until the call returns; tracefs takes no data.
        let result = unsafe {
            let name = c"tracefs".as_ptr();
            libc::mount(name, target.as_ptr(), name, 0, std::ptr::null())
        };
        if result != 0 {
            return Err(std::io::Error::last_os_error()).context("tracefs cannot be mounted");
        }
        let instance = mount.join(format!("instances/hindsight-{}", std::process::id()));
        let pipes = Vec::new();
        let mut tracefs = Tracefs {
            mount,
            instance,
            pipes,
        };
        fs::create_dir(&tracefs.instance).context("tracefs has no instances")?;
        tracefs.set("trace_clock", "boot")?;
        tracefs.set("buffer_size_kb", "8192")?;
        tracefs.set("events/sched/sched_switch/enable", "1")?;
        tracefs.set("tracing_on", "0")?;
        for cpu in fs::read_dir(tracefs.instance.join("per_cpu"))? {
            let path = cpu?.path().join("trace_pipe");
            let mut file = File::options();
            let file = file.read(true).custom_flags(libc::O_NONBLOCK).open(&path);
            let file = file.with_context(|| format!("cannot read {}", path.display()))?;
            tracefs.pipes.push(file);
        }
        Ok(tracefs)
    }

    fn set(&self, file: &str, value: &str) -> Result<()> {
        let path = self.instance.join(file);
        fs::write(&path, value).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads all events until now.
    fn take(&mut self, recorded: &mut Recorded) -> Result<()> {
        let mut buffer = [0; 16 << 10];
        for pipe in &mut self.pipes {
            let mut text = Vec::new();
            loop {
                match pipe.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(count) => text.extend_from_slice(&buffer[..count]),
                    Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Err(e) => return Err(e).context("cannot read the events of tracefs"),
                }
            }
            recorded.add(&String::from_utf8_lossy(&text));
        }
        Ok(())
    }
}

impl Drop for Tracefs {
    fn drop(&mut self) {
        // An instance with open files cannot be removed.
        self.pipes.clear();
        let _ = fs::remove_dir(&self.instance);
        if let Ok(target) = CString::new(self.mount.as_os_str().as_bytes()) {
            // SAFETY: it is a C string that lives until the call returns.
            unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) };
        }
    }
}

/// An event of a processor.
#[derive(Debug, PartialEq, Eq)]
struct Switch {
    cpu: u64,
    at_ns: u64,
    body: Message,
    /// The thread that left the processor, and the one that it went on with.
    pid: u64,
    next: u64,
    /// The kernel had no room for events before this one.
    is_after_loss: bool,
}

fn state(letters: &str) -> u64 {
    let one = |letter| match letter {
        'S' => 1,
        'D' => 2,
        'T' => 4,
        't' => 8,
        'X' => 16,
        'Z' => 32,
        'P' => 64,
        'I' => 128,
        '+' => 256,
        _ => 0,
    };
    letters.chars().map(one).sum()
}

/// The event of a line: `name-12 [001] d..2. 5.000001: sched_switch: prev_comm=name prev_pid=12 … ==> next_comm=…`.
fn switch(line: &str) -> Option<Switch> {
    let (head, body) = line.split_once(": sched_switch: ")?;
    let (rest, at) = head.rsplit_once(' ')?;
    let (seconds, micros) = at.split_once('.')?;
    let at_ns = seconds.parse::<u64>().ok()? * 1_000_000_000 + micros.parse::<u64>().ok()? * 1000;
    let cpu = rest[rest.rfind(" [")? + 2..]
        .split(']')
        .next()?
        .parse()
        .ok()?;
    let (prev, next) = body.split_once(" ==> ")?;
    let (prev_comm, prev) = prev.strip_prefix("prev_comm=")?.rsplit_once(" prev_pid=")?;
    let (pid, prev) = prev.split_once(" prev_prio=")?;
    let (prio, letters) = prev.split_once(" prev_state=")?;
    let (next_comm, next) = next.strip_prefix("next_comm=")?.rsplit_once(" next_pid=")?;
    let (next_pid, next_prio) = next.split_once(" next_prio=")?;
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let next = number(next_pid)?;
    let mut body = Message::new();
    body.string(1, prev_comm)
        .varint(2, number(pid)?)
        .varint(3, number(prio)?)
        .varint(4, state(letters))
        .string(5, next_comm)
        .varint(6, next)
        .varint(7, number(next_prio)?);
    let pid = number(pid)?;
    Some(Switch {
        cpu,
        at_ns,
        body,
        pid,
        next,
        is_after_loss: false,
    })
}

/// A switch without an event, though the kernel tells of no loss: a processor went on with one thread, and the next that left it was
/// another. Some kernels of virtual machines record no switch away from some threads, such as the idle thread of the second processor.
/// They record other events of these threads, and count no event that they do not print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hole {
    /// The events around it, CLOCK_BOOTTIME, ns.
    pub(super) since_ns: u64,
    pub(super) until_ns: u64,
    /// The threads that ran before it and after it.
    pub(super) before: u64,
    pub(super) after: u64,
    /// The kernel has recorded switches away from the thread that ran before: this one was lost on the way.
    pub(super) is_ours: bool,
}

/// What is wrong with the kernel's events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Faults {
    /// Events that the kernel has had no room for.
    pub(super) lost: u64,
    /// Lines that are not understood, and the first of them.
    pub(super) unread: u64,
    pub(super) first_unread: String,
    pub(super) holes: Vec<Hole>,
}

/// A thread; idle threads have one number, 0, and are told apart by their processor.
type Thread = (u64, Option<u64>);

fn thread(pid: u64, cpu: u64) -> Thread {
    (pid, (pid == 0).then_some(cpu))
}

/// Events that are not yet in a packet, by processor.
#[derive(Debug, Default)]
struct Recorded {
    by_cpu: BTreeMap<u64, Vec<Switch>>,
    /// Processors that lost events since their last one.
    losing: BTreeSet<u64>,
    /// Time and next thread of each processor's last event.
    last: BTreeMap<u64, (u64, u64)>,
    /// Threads that a switch has left.
    left: BTreeSet<Thread>,
    /// Up to where packets have a processor's events.
    written_ns: BTreeMap<u64, u64>,
    faults: Arc<Mutex<Faults>>,
}

impl Recorded {
    /// A session begins: what was recorded before is not in it.
    fn begin(&mut self) {
        self.by_cpu.clear();
        self.losing.clear();
        self.last.clear();
        self.written_ns.clear();
    }

    /// Adds the events of a pipe's text.
    fn add(&mut self, text: &str) {
        let faults = Arc::clone(&self.faults);
        let mut faults = faults.lock().unwrap_or_else(PoisonError::into_inner);
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some((cpu, lost)) = loss(line) {
                self.losing.insert(cpu);
                self.last.remove(&cpu);
                faults.lost += lost;
            } else if let Some(mut switch) = switch(line) {
                switch.is_after_loss = self.losing.remove(&switch.cpu);
                faults.holes.extend(self.hole(&switch));
                self.by_cpu.entry(switch.cpu).or_default().push(switch);
            } else {
                faults.unread += 1;
                if faults.first_unread.is_empty() {
                    line.clone_into(&mut faults.first_unread);
                }
            }
        }
    }

    /// Whether a switch is missing before this one.
    fn hole(&mut self, switch: &Switch) -> Option<Hole> {
        self.left.insert(thread(switch.pid, switch.cpu));
        let last = self.last.insert(switch.cpu, (switch.at_ns, switch.next));
        let (since_ns, before) = last.filter(|(_, next)| *next != switch.pid)?;
        Some(Hole {
            since_ns,
            until_ns: switch.at_ns,
            before,
            after: switch.pid,
            is_ours: self.left.contains(&thread(before, switch.cpu)),
        })
    }

    /// Packets with bundles of events, each of one processor.
    fn packets(&mut self) -> Vec<Message> {
        let mut packets = Vec::new();
        for (cpu, switches) in std::mem::take(&mut self.by_cpu) {
            for gapless in switches.chunk_by(|_, next| !next.is_after_loss) {
                for group in gapless.chunks(EVENTS_A_PACKET) {
                    let end_ns = group.last().map_or(0, |last| last.at_ns);
                    let previous = self.written_ns.insert(cpu, end_ns);
                    packets.push(packet(cpu, group, previous));
                }
            }
        }
        packets
    }
}

/// Processor and count of a line that tells of lost events: `CPU:1 [LOST 12 EVENTS]`.
fn loss(line: &str) -> Option<(u64, u64)> {
    let (cpu, rest) = line.strip_prefix("CPU:")?.split_once(" [LOST ")?;
    // An older kernel, or a damaged page, has no count.
    let count = rest.strip_suffix(" EVENTS]").and_then(|n| n.parse().ok());
    Some((cpu.parse().ok()?, count.unwrap_or(1)))
}

/// A bundle of a processor's events. `previous_ns`: the last event of the bundle before.
fn packet(cpu: u64, switches: &[Switch], previous_ns: Option<u64>) -> Message {
    let mut bundle = Message::new();
    bundle.varint(1, cpu);
    for switch in switches {
        let mut event = Message::new();
        event
            .varint(1, switch.at_ns)
            .varint(2, switch.pid)
            .message(4, &switch.body);
        bundle.message(2, &event);
    }
    if switches.first().is_some_and(|first| first.is_after_loss) {
        bundle.varint(3, 1);
    }
    if let Some(previous_ns) = previous_ns {
        bundle.varint(10, previous_ns);
    }
    let mut packet = Message::new();
    packet.message(1, &bundle);
    packet
}

/// The data source, on a thread of its own.
pub(super) struct Ftrace {
    ends: Arc<AtomicBool>,
    faults: Arc<Mutex<Faults>>,
    thread: Option<JoinHandle<()>>,
}

impl Ftrace {
    /// Starts it. The error says why the kernel does not let us.
    pub(super) fn start(producers: &Path, folder: &Path) -> Result<Self> {
        let mut tracefs = Tracefs::new(folder)?;
        let faults = Arc::new(Mutex::new(Faults::default()));
        let mut recorded = Recorded {
            faults: Arc::clone(&faults),
            ..Recorded::default()
        };
        let ends = Arc::new(AtomicBool::new(false));
        let (flag, producers) = (Arc::clone(&ends), producers.to_owned());
        let thread = std::thread::spawn(move || {
            while !flag.load(Ordering::Relaxed) {
                // traced may come and go.
                if let Ok(mut producer) = Producer::connect(&producers, "linux.ftrace") {
                    if let Err(e) = serve(&mut producer, &mut tracefs, &mut recorded, &flag) {
                        eprintln!("verify perfetto: the ftrace producer: {e:#}");
                    }
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let thread = Some(thread);
        Ok(Ftrace {
            ends,
            faults,
            thread,
        })
    }

    /// What was wrong since this was asked last.
    pub(super) fn faults(&self) -> Faults {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *faults)
    }
}

impl Drop for Ftrace {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(
    producer: &mut Producer,
    tracefs: &mut Tracefs,
    recorded: &mut Recorded,
    ends: &AtomicBool,
) -> Result<()> {
    let mut instances: BTreeMap<u64, (Config, u32)> = BTreeMap::new();
    while !ends.load(Ordering::Relaxed) {
        let mut one = libc::pollfd {
            fd: producer.as_fd().as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: `one` is one valid entry.
        unsafe { libc::poll(&mut one, 1, 200) };
        if !instances.is_empty() {
            tracefs.take(recorded)?;
        }
        while let Some(command) = producer.next_command()? {
            match command {
                Command::Start { instance, config } => {
                    if instances.is_empty() {
                        // Of a session that traced did not end.
                        tracefs.set("tracing_on", "0")?;
                        tracefs.set("trace", "")?;
                        recorded.begin();
                    }
                    tracefs.set("tracing_on", "1")?;
                    instances.insert(instance, (Config::parse(&config), 0));
                }
                Command::Flush {
                    instances: wanted,
                    request,
                    flags,
                } => {
                    // As in the data source: a periodic flush writes nothing.
                    let is_periodic = flags & 0xf == reason::PERIODIC;
                    for number in wanted.into_iter().filter(|_| !is_periodic) {
                        tracefs.take(recorded)?;
                        write(producer, recorded, &mut instances, number)?;
                    }
                    producer.commit(&[], Some(request))?;
                }
                Command::Stop { instance } => {
                    if instances.len() == 1 {
                        tracefs.set("tracing_on", "0")?;
                    }
                    tracefs.take(recorded)?;
                    write(producer, recorded, &mut instances, instance)?;
                    instances.remove(&instance);
                    producer.stopped(instance)?;
                }
                Command::Other => {}
            }
        }
    }
    Ok(())
}

fn write(
    producer: &mut Producer,
    recorded: &mut Recorded,
    instances: &mut BTreeMap<u64, (Config, u32)>,
    number: u64,
) -> Result<()> {
    let Some((config, next)) = instances.get_mut(&number) else {
        return Ok(());
    };
    // One writer is enough: instances end before their numbers can be used again.
    let writer = (number % 1000 + 1) as u16;
    let mut chunks = Chunks::new(producer, writer, config.buffer, *next);
    for packet in recorded.packets() {
        chunks.packet(packet.as_bytes())?;
    }
    *next = chunks.finish()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use hindsight_perfetto_source::proto::Fields;

    use super::*;

    #[test]
    fn a_line_of_tracefs_is_an_event() {
        let line = "       a b-12      [003] d..2.    5.000001: sched_switch: prev_comm=a b prev_pid=12 prev_prio=120 \
                    prev_state=R+ ==> next_comm=swapper/3 next_pid=0 next_prio=120";
        let switch = switch(line).unwrap();
        assert_eq!(
            (switch.cpu, switch.at_ns, switch.pid),
            (3, 5_000_001_000, 12)
        );
        assert_eq!(state("R+"), 256);
        let mut recorded = Recorded::default();
        recorded.add("# tracer: nop\n");
        assert_eq!(recorded.packets().len(), 0);
        recorded.add(&format!("{line}\n{line}\n"));
        assert_eq!(recorded.packets().len(), 1);
        recorded.add(&format!("{line}\nCPU:3 [LOST 12 EVENTS]\n{line}\n{line}\n"));
        assert_eq!(recorded.packets().len(), 2);
        recorded.add("nonsense\n");
        let faults = recorded.faults.lock().unwrap().clone();
        assert_eq!((faults.lost, faults.unread), (12, 1));
        assert_eq!(faults.first_unread, "nonsense");
    }

    fn line(cpu: u64, micros: u64, from: u64, to: u64) -> String {
        format!(
            "  a-{from} [{cpu:03}] d..2. 5.{micros:06}: sched_switch: prev_comm=a prev_pid={from} prev_prio=120 prev_state=S ==> \
             next_comm=b next_pid={to} next_prio=120\n"
        )
    }

    #[test]
    fn a_switch_without_an_event_is_a_hole() {
        let mut recorded = Recorded::default();
        let faults = Arc::clone(&recorded.faults);
        let holes = || std::mem::take(&mut faults.lock().unwrap().holes);
        recorded.add(&(line(0, 1, 0, 7) + &line(1, 2, 8, 9) + &line(0, 3, 7, 0)));
        recorded.add(&(line(1, 4, 9, 0) + &line(0, 5, 0, 7)));
        assert_eq!(holes(), []);
        // The idle thread of processor 1 has never left, the one of processor 0 has.
        recorded.add(&line(1, 6, 9, 0));
        let hole = Hole {
            since_ns: 5_000_004_000,
            until_ns: 5_000_006_000,
            before: 0,
            after: 9,
            is_ours: false,
        };
        assert_eq!(holes(), [hole]);
        recorded.add(&(line(0, 7, 7, 0) + &line(0, 8, 7, 0)));
        let is_ours = holes().iter().map(|hole| hole.is_ours).collect::<Vec<_>>();
        assert_eq!(is_ours, [true]);
        // A loss that the kernel tells of is none, and a session begins without one.
        recorded.add(&("CPU:1 [LOST 3 EVENTS]\n".to_owned() + &line(1, 9, 4, 5)));
        assert_eq!(holes(), []);
        recorded.begin();
        recorded.add(&line(1, 10, 6, 7));
        assert_eq!(holes(), []);
    }

    #[test]
    fn a_bundle_says_where_the_one_before_ended() {
        let mut recorded = Recorded::default();
        let mut previous = |text: &str| {
            recorded.add(text);
            let packets = recorded.packets();
            let bundle = Fields::get(packets[0].as_bytes(), 1).unwrap().bytes();
            Fields::get(bundle, 10).map(|v| v.number())
        };
        assert_eq!(previous(&line(0, 1, 0, 7)), None);
        assert_eq!(previous(&line(1, 2, 0, 7)), None);
        assert_eq!(previous(&line(0, 3, 7, 0)), Some(5_000_001_000));
    }
}
