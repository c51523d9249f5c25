// SPDX-License-Identifier: Apache-2.0
//! What two processes of the guest recorded of transactions through the kernel's binder, beside what the kernel recorded, and how
//! the tool explains the wait for the last one.

use super::kernel_events::{Event, KernelEvents, What};
use super::tool::{calls, info, said, Info};
use anyhow::{bail, ensure, Context as _, Result};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The method in which the server spends the time of the last transaction, as its source says.
const SERVER_METHOD: &str = "dev.hindsight.vm.BinderServer.compare";
/// The one that serves the last transaction, which calls that.
const SLOW_METHOD: &str = "dev.hindsight.vm.BinderServer.search";
/// So much of the last transaction is that method's, of 100, as the server's file has it.
const SLOW_PERCENT: u64 = 90;
/// The transactions that the client sends, and its user.
const TRANSACTIONS: usize = 6;
const CLIENT_USER: u32 = 10_003;
/// Larger codes are binder's own, such as a ping: libbinder sends and answers them below Java.
const LAST_CODE: u32 = 0x00ff_ffff;
/// The kernel's text has whole microseconds, and the processes' times are made of a counter.
const SLACK_NS: u64 = 100_000;

/// The reports of the two processes.
pub(super) struct Reports {
    /// Of the client, when it had waited long.
    client: (PathBuf, Info),
    /// Of the server, when it was killed.
    server: (PathBuf, Info),
}

impl Reports {
    /// Takes the reports of the two processes out of those of all: `None` if there are none.
    ///
    /// # Errors
    /// If one of them is missing, or a file cannot be read.
    pub(super) fn take(hindsight: &Path, all: &mut Vec<&PathBuf>) -> Result<Option<Self>> {
        let (mut client, mut server, mut pids) = (None, None, Vec::new());
        for &file in all.iter() {
            let info = info(hindsight, file)?;
            pids.push(info.pid);
            if info.reason.contains("for another process") {
                client = Some((file.clone(), info));
            } else if calls(hindsight, file, SERVER_METHOD)?.is_some() {
                server = Some((file.clone(), info));
            }
        }
        let reports = match (client, server) {
            (None, None) => return Ok(None),
            (Some(client), Some(server)) => Reports { client, server },
            (None, _) => bail!("no report says that the main thread waited for another process"),
            (_, None) => bail!("no report has calls of {SERVER_METHOD}"),
        };
        // The client was killed, too.
        let mut pids = pids.into_iter();
        all.retain(|_| {
            pids.next()
                .is_some_and(|pid| pid != reports.client.1.pid && pid != reports.server.1.pid)
        });
        Ok(Some(reports))
    }
}

#[derive(Deserialize)]
struct Listed {
    /// CLOCK_BOOTTIME, ns.
    start_ns: u64,
    events: Vec<Recorded>,
}

/// An event of a process.
#[derive(Debug, Default, Deserialize)]
struct Recorded {
    at_ns: u64,
    tid: u32,
    event: String,
    #[serde(default)]
    took_ns: u64,
    fields: Fields,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Fields {
    code: u32,
    one_way: bool,
    from_process: u32,
    from_user: u32,
}

/// The events of binder that a process has recorded.
fn list(hindsight: &Path, file: &Path) -> Result<Listed> {
    let arguments = ["events", "--json", "-c", "binder", "-n", "1000"];
    Ok(serde_json::from_slice(&said(
        hindsight,
        &arguments,
        &[file],
    )?)?)
}

/// Those that begin transactions: `BinderSend` or `BinderServe`.
fn recorded(hindsight: &Path, file: &Path, event: &str) -> Result<Vec<Recorded>> {
    let events = list(hindsight, file)?.events.into_iter();
    Ok(events.filter(|e| e.event == event).collect())
}

/// A transaction of the kernel: the events of its way, and of the reply's.
#[derive(Debug)]
struct Kernel<'a> {
    sent: &'a Event,
    received: &'a Event,
    replied: &'a Event,
    returned: &'a Event,
    code: u32,
}

/// The transactions from one process to the other with codes of their own, in the order of time.
fn transactions(events: &[Event], server: u32) -> Result<Vec<Kernel<'_>>> {
    let received = |wanted: u32| {
        let mut all = events.iter();
        let found = all.find(|e| matches!(e.what, What::Received { id } if id == wanted));
        found.with_context(|| format!("the kernel's transaction {wanted} was not received"))
    };
    let mut found = Vec::new();
    for (place, sent) in events.iter().enumerate() {
        let What::Sent {
            id,
            to_process,
            is_reply: false,
            code,
            ..
        } = sent.what
        else {
            continue;
        };
        if to_process != server || code > LAST_CODE {
            continue;
        }
        let arrived = received(id)?;
        let reply = events[place..].iter().find_map(|e| match e.what {
            What::Sent {
                id,
                to_thread,
                is_reply: true,
                ..
            } if e.tid == arrived.tid && to_thread == sent.tid && e.at_ns >= arrived.at_ns => {
                Some((e, id))
            }
            _ => None,
        });
        let (replied, reply) = reply.with_context(|| format!("transaction {id} has no reply"))?;
        found.push(Kernel {
            sent,
            received: arrived,
            replied,
            returned: received(reply)?,
            code,
        });
    }
    Ok(found)
}

/// Whether times follow each other.
fn in_order(times: &[u64]) -> bool {
    times.is_sorted_by(|a, b| *a <= b + SLACK_NS)
}

/// Why a transaction that both processes recorded is not this one of the kernel; `None` if it is.
fn objection(
    kernel: &Kernel,
    sent: &Recorded,
    served: &Recorded,
    client: u32,
) -> Option<&'static str> {
    let from = (served.fields.from_process, served.fields.from_user);
    let times = [
        sent.at_ns,
        kernel.sent.at_ns,
        kernel.received.at_ns,
        served.at_ns,
        served.at_ns + served.took_ns,
        kernel.replied.at_ns,
        kernel.returned.at_ns,
        sent.at_ns + sent.took_ns,
    ];
    if sent.tid != kernel.sent.tid || sent.tid != kernel.returned.tid {
        Some("another thread sent it")
    } else if served.tid != kernel.received.tid {
        Some("another thread received it")
    } else if sent.fields.code != kernel.code || served.fields.code != kernel.code {
        Some("it has another code")
    } else if sent.fields.one_way || served.fields.one_way {
        Some("a one-way transaction was recorded")
    } else if from != (client, CLIENT_USER) {
        Some("the server has recorded another sender")
    } else if !in_order(&times) {
        Some("the times do not follow each other")
    } else {
        None
    }
}

/// Each transaction that a process has recorded is one of the kernel, and the other way round.
///
/// # Errors
/// If one is not.
pub(super) fn compare(hindsight: &Path, reports: &Reports, events: &KernelEvents) -> Result<()> {
    let kernel = transactions(&events.all, reports.server.1.pid)?;
    let sent = recorded(hindsight, &reports.client.0, "BinderSend")?;
    let served = recorded(hindsight, &reports.server.0, "BinderServe")?;
    let counts = [kernel.len(), sent.len(), served.len()];
    ensure!(
        counts == [TRANSACTIONS; 3],
        "of {TRANSACTIONS} transactions the kernel, the client and the server have {counts:?}"
    );
    for ((kernel, sent), served) in kernel.iter().zip(&sent).zip(&served) {
        if let Some(why) = objection(kernel, sent, served, reports.client.1.pid) {
            bail!("{why}: {kernel:?}, sent {sent:?}, served {served:?}");
        }
    }
    Ok(())
}

/// The tool says whom the client waited for, by the kernel's events as a trace of the whole device, which is left in the folder
/// `out`; and the server's file says in which method the server was meanwhile.
///
/// # Errors
/// If they do not.
pub(super) fn explain(
    hindsight: &Path,
    reports: &Reports,
    events: &KernelEvents,
    out: &Path,
) -> Result<()> {
    let trace = out.join("kernel.pftrace");
    std::fs::write(&trace, events.to_perfetto())
        .with_context(|| format!("cannot write {}", trace.display()))?;
    let ((client, of_client), (server, of_server)) = (&reports.client, &reports.server);
    let client_tid = of_client.pid.to_string();
    let arguments = ["diagnose", "--strict", "-t", &client_tid];
    let text = said(hindsight, &arguments, &[client, server, &trace])?;
    let text = String::from_utf8_lossy(&text);
    let server_tid = of_server.pid;
    for part in [
        format!("for the reply to a transaction, which thread \"main\" (tid {server_tid}) of"),
        format!("Culprit: service, on thread \"main\" (tid {server_tid}) of"),
        "which served the transaction and computed.".to_owned(),
    ] {
        ensure!(text.contains(&part), "it does not say '{part}': {text}");
    }
    let kernel = transactions(&events.all, server_tid)?;
    let last = kernel.last().context("the kernel has no transaction")?;
    let from_ns = last.received.at_ns;
    let took_ns = last.replied.at_ns.saturating_sub(from_ns);
    let slow_ns = time_in(hindsight, server, SLOW_METHOD, (from_ns, took_ns))?;
    ensure!(
        slow_ns >= took_ns / 100 * SLOW_PERCENT,
        "{SLOW_METHOD} took {slow_ns} ns of {took_ns} ns of the transaction"
    );
    Ok(())
}

#[derive(Deserialize)]
struct Top {
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    name: String,
    total_ns: u64,
}

/// How long a method ran within a stretch of time, CLOCK_BOOTTIME, by its begin and length, ns.
fn time_in(
    hindsight: &Path,
    file: &Path,
    method: &str,
    (from_ns, took_ns): (u64, u64),
) -> Result<u64> {
    let start_ns = list(hindsight, file)?.start_ns;
    let at = |ns: u64| format!("{:.6}s", ns.saturating_sub(start_ns) as f64 / 1e9);
    let (from, to) = (at(from_ns), at(from_ns + took_ns));
    let arguments = [
        "top", "--json", "--sort", "total", "--from", &from, "--to", &to,
    ];
    let top: Top = serde_json::from_slice(&said(hindsight, &arguments, &[file])?)?;
    let row = top.rows.iter().find(|row| row.name == method);
    Ok(row.map_or(0, |row| row.total_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A transaction with its reply, µs: sent, received, replied, returned.
    fn kernel(code: u32, at: [u64; 4]) -> String {
        let line = |tid: u32, at: u64, body: String| {
            format!("  main-{tid} [000] ..... 5.{at:06}: binder_{body}\n")
        };
        [
            line(7, at[0], format!("transaction: transaction=3 dest_node=1 dest_proc=8 dest_thread=0 reply=0 flags=0x10 code={code:#x}")),
            line(8, at[1], "transaction_received: transaction=3".to_owned()),
            line(8, at[2], "transaction: transaction=4 dest_node=0 dest_proc=7 dest_thread=7 reply=1 flags=0x0 code=0x0".to_owned()),
            line(7, at[3], "transaction_received: transaction=4".to_owned()),
        ]
        .concat()
    }

    fn events(lines: &str) -> Vec<Event> {
        let text = format!("# clocks 1 1 1\n{lines}");
        KernelEvents::parse(&text).unwrap().all
    }

    fn event(tid: u32, at: u64, took: u64, fields: Fields) -> Recorded {
        Recorded {
            at_ns: 5_000_000_000 + 1000 * at,
            tid,
            event: String::new(),
            took_ns: 1000 * took,
            fields,
        }
    }

    #[test]
    fn a_transaction_is_told_from_another() {
        let events = events(&kernel(2, [1000, 2000, 5000, 6000]));
        let found = transactions(&events, 8).unwrap();
        assert_eq!(found.len(), 1);
        let sent = |tid, code| {
            let fields = Fields {
                code,
                ..Fields::default()
            };
            event(tid, 900, 5200, fields)
        };
        let served = |tid, at, from_user| {
            let fields = Fields {
                code: 2,
                from_process: 7,
                from_user,
                ..Fields::default()
            };
            event(tid, at, 1000, fields)
        };
        let same = served(8, 3000, CLIENT_USER);
        let objection =
            |sent: &Recorded, served: &Recorded| super::objection(&found[0], sent, served, 7);
        assert_eq!(objection(&sent(7, 2), &same), None);
        let cases = [
            (sent(9, 2), same, "another thread sent it"),
            (
                sent(7, 2),
                served(9, 3000, CLIENT_USER),
                "another thread received it",
            ),
            (
                sent(7, 3),
                served(8, 3000, CLIENT_USER),
                "it has another code",
            ),
            (
                sent(7, 2),
                served(8, 3000, 1),
                "the server has recorded another sender",
            ),
            (
                sent(7, 2),
                served(8, 1000, CLIENT_USER),
                "the times do not follow each other",
            ),
            (
                sent(7, 2),
                served(8, 4500, CLIENT_USER),
                "the times do not follow each other",
            ),
        ];
        for (sent, served, why) in cases {
            assert_eq!(objection(&sent, &served), Some(why));
        }
    }

    #[test]
    fn only_whole_transactions_of_the_program_count() {
        let ping = kernel(0x5f50_4e47, [1, 2, 3, 4]);
        assert!(transactions(&events(&ping), 8).unwrap().is_empty());
        let whole = kernel(1, [1, 2, 3, 4]);
        assert!(transactions(&events(&whole), 9).unwrap().is_empty());
        let lines: Vec<&str> = whole.lines().collect();
        let error = |count: usize| {
            let events = events(&lines[..count].join("\n"));
            transactions(&events, 8).unwrap_err().to_string()
        };
        assert_eq!(error(1), "the kernel's transaction 3 was not received");
        assert_eq!(error(2), "transaction 3 has no reply");
        assert_eq!(error(3), "the kernel's transaction 4 was not received");
    }
}
