// SPDX-License-Identifier: Apache-2.0
//! Perfetto's own trace processor, for tests that compare with it. It needs Node.js, and once the network (see
//! `scripts/perfetto`).

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

/// The trace processor, with a trace in it.
#[derive(Debug)]
pub struct Perfetto {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Perfetto {
    /// Opens a trace.
    ///
    /// # Panics
    /// If Node.js is missing.
    pub fn open(trace: &Path) -> Self {
        let script = Path::new(env!("HINDSIGHT_CHECKOUT")).join("scripts/perfetto/query.mjs");
        let mut child = Command::new("node")
            .arg(script)
            .arg(trace)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect(
                "Node.js runs Perfetto's trace processor: install it, or set HINDSIGHT_OFFLINE=1",
            );
        Perfetto {
            input: child.stdin.take().expect("it is piped"),
            output: BufReader::new(child.stdout.take().expect("it is piped")),
            child,
        }
    }

    /// Asks it, in SQL. Each row is an object.
    ///
    /// # Panics
    /// If it gives no answer.
    pub fn query(&mut self, sql: &str) -> Vec<Value> {
        let mut line = String::new();
        writeln!(self.input, "{}", sql.replace('\n', " "))
            .and_then(|()| self.output.read_line(&mut line))
            .expect("the trace processor runs");
        assert!(!line.is_empty(), "the trace processor gave up on {sql}");
        serde_json::from_str(&line).expect("its answer is JSON")
    }

    /// Whether `HINDSIGHT_OFFLINE` leaves such tests out; then standard error says so.
    pub fn is_left_out() -> bool {
        let offline = std::env::var_os("HINDSIGHT_OFFLINE").is_some_and(|v| v != "0");
        if offline {
            eprintln!("left out: HINDSIGHT_OFFLINE is set");
        }
        offline
    }
}

impl Drop for Perfetto {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
