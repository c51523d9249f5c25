// SPDX-License-Identifier: Apache-2.0
//! The stall of the demo's app, explained from events alone, compared with the app's source in `lab/demo`.

use anyhow::{ensure, Context as _, Result};
use serde::Deserialize;

use super::expected::{CULPRIT, LIMIT_NS, THREAD, WAITING};

/// The class of the message's target, `NoteListScreen.handler`.
const HANDLER: &str = "android.os.Handler";
/// `NoteListScreen.MSG_OPEN_NOTE`, which `ScriptedUser` sends.
const OPEN_NOTE: u64 = 2;
/// The thread that sends it, and gets it.
const MAIN: &str = "main";
/// What it does when it sends it: it runs a message whose callback is the `ScriptedUser`.
const SENDS: &str = "message com.example.notes.ScriptedUser";
/// The main thread computes for less than this part of the stall: it shows one note.
const MOST_CPU: f64 = 0.5;

/// The stalls that `hindsight why --json` finds.
#[derive(Deserialize)]
struct Stalls {
    thread: String,
    events_only: bool,
    #[serde(default)]
    told: Vec<Stall>,
}

/// The facts of a stall that are compared.
#[derive(Deserialize)]
struct Stall {
    what: Option<String>,
    name: String,
    code: Option<u64>,
    held_ns: u64,
    sender: Option<Party>,
    used: Option<Used>,
    wait: Option<Wait>,
    place: Option<Place>,
    /// Method or task, and thread.
    culprit: Option<(String, String)>,
}

#[derive(Deserialize)]
struct Party {
    thread: Option<String>,
    doing: Vec<String>,
    waits: Vec<WaitTotal>,
}

#[derive(Deserialize)]
struct WaitTotal {
    kind: String,
    ns: u64,
}

#[derive(Deserialize)]
struct Used {
    cpu_ns: u64,
}

#[derive(Deserialize)]
struct Wait {
    kind: String,
    ns: u64,
    owner: Option<Party>,
}

#[derive(Deserialize)]
struct Place {
    method: String,
}

/// Compares what `hindsight why --json` wrote with the source of the program.
pub(super) fn check(json: &[u8]) -> Result<()> {
    let stalls: Stalls = serde_json::from_slice(json).context("hindsight why wrote other JSON")?;
    ensure!(
        stalls.thread == MAIN && stalls.events_only,
        "the thread is {:?}, events only: {}; it must be main, with events only",
        stalls.thread,
        stalls.events_only
    );
    let stall = stalls.told.first().context("the trace holds no stall")?;
    message(stall)?;
    cpu_time(stall)?;
    owner(stall)?;
    methods(stall)
}

/// The message and its sender: `ScriptedUser.run`, which is itself run by a message of the main thread.
fn message(stall: &Stall) -> Result<()> {
    let is_expected = stall.what.as_deref() == Some("message")
        && stall.name == HANDLER
        && stall.code == Some(OPEN_NOTE);
    ensure!(
        is_expected,
        "the stall is of {:?} {:?} with the code {:?}; it must be a message for {HANDLER} with the code {OPEN_NOTE}",
        stall.what,
        stall.name,
        stall.code
    );
    ensure!(
        stall.held_ns > LIMIT_NS,
        "the stall took {} ns, less than the watchdog's limit",
        stall.held_ns
    );
    let sender = stall.sender.as_ref().context("the message has no sender")?;
    let sends = sender.doing.iter().any(|doing| doing == SENDS);
    ensure!(
        sender.thread.as_deref() == Some(MAIN) && sends,
        "the message was sent by {:?} in {:?}; it must be {MAIN:?}, in {SENDS:?}",
        sender.thread,
        sender.doing
    );
    Ok(())
}

fn cpu_time(stall: &Stall) -> Result<()> {
    let used = stall
        .used
        .as_ref()
        .context("the CPU time of the main thread is not known")?;
    ensure!(
        used.cpu_ns > 0 && (used.cpu_ns as f64) < stall.held_ns as f64 * MOST_CPU,
        "the main thread used {} ns of CPU time in a stall of {} ns; it must have waited most of the time",
        used.cpu_ns,
        stall.held_ns
    );
    Ok(())
}

/// The wait for the lock of the `NoteStore`, which its owner holds while it sleeps.
fn owner(stall: &Stall) -> Result<()> {
    let wait = stall.wait.as_ref().context("the stall has no wait")?;
    ensure!(
        wait.kind == "lock",
        "the main thread waited for {:?}; it must be a lock",
        wait.kind
    );
    let owner = wait.owner.as_ref().context("the lock has no owner")?;
    ensure!(
        owner.thread.as_deref() == Some(THREAD),
        "the lock's owner is {:?}; it must be {THREAD:?}",
        owner.thread
    );
    let slept = owner.waits.iter().find(|w| w.kind == "sleep");
    let slept_ns = slept.map_or(0, |w| w.ns);
    ensure!(
        slept_ns > 0 && slept_ns <= wait.ns,
        "the owner slept for {slept_ns} ns of a wait of {} ns; it must have slept, with the lock",
        wait.ns
    );
    Ok(())
}

/// The methods that stacks show.
fn methods(stall: &Stall) -> Result<()> {
    let place = stall.place.as_ref().map(|place| place.method.as_str());
    let waiting = WAITING.last().copied();
    ensure!(
        place == waiting,
        "the main thread waited in {place:?}; it must be {waiting:?}"
    );
    let culprit = stall.culprit.as_ref();
    let culprit = culprit.map(|(what, thread)| (what.as_str(), thread.as_str()));
    ensure!(
        culprit == Some((CULPRIT, THREAD)),
        "hindsight why names the culprit {culprit:?}; it must be {:?}",
        (CULPRIT, THREAD)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, Value};

    /// As the demo's trace has it.
    fn found() -> Value {
        json!({
            "thread": "main",
            "events_only": true,
            "told": [{
                "what": "message",
                "name": "android.os.Handler",
                "code": 2,
                "held_ns": 668_000_000,
                "sender": {"thread": "main", "doing": [SENDS], "waits": []},
                "used": {"cpu_ns": 1_200_000},
                "wait": {
                    "kind": "lock",
                    "ns": 640_000_000,
                    "owner": {
                        "thread": "notes-sync",
                        "doing": ["message android.os.Handler"],
                        "waits": [{"kind": "sleep", "ns": 639_000_000}],
                    },
                },
                "place": {"method": "com.example.notes.NoteStore.find"},
                "culprit": ["com.example.notes.NoteFile.syncToFlash", "notes-sync"],
            }],
        })
    }

    fn result(json: &Value) -> Result<()> {
        check(json.to_string().as_bytes())
    }

    #[test]
    fn each_fact_has_to_be_there() {
        result(&found()).unwrap();
        for fact in [
            "/told/0/sender",
            "/told/0/used",
            "/told/0/wait",
            "/told/0/wait/owner",
            "/told/0/place",
            "/told/0/culprit",
        ] {
            let mut json = found();
            *json.pointer_mut(fact).unwrap() = Value::Null;
            assert!(result(&json).is_err(), "{fact}");
        }
    }

    #[test]
    fn each_fact_has_to_agree() {
        for (fact, other) in [
            ("/told/0/sender/thread", json!("notes-sync")),
            ("/told/0/sender/doing", json!([])),
            ("/told/0/code", json!(1)),
            ("/told/0/held_ns", json!(300_000_000)),
            ("/told/0/used/cpu_ns", json!(0)),
            ("/told/0/used/cpu_ns", json!(600_000_000)),
            ("/told/0/wait/kind", json!("object")),
            ("/told/0/wait/owner/thread", json!("main")),
            ("/told/0/wait/owner/waits", json!([])),
            (
                "/told/0/culprit/0",
                json!("com.example.notes.NoteStore.put"),
            ),
            ("/told", json!([])),
            ("/events_only", json!(false)),
        ] {
            let mut json = found();
            *json.pointer_mut(fact).unwrap() = other;
            assert!(result(&json).is_err(), "{fact}");
        }
    }
}
