// SPDX-License-Identifier: Apache-2.0
//! Tracing switched on and off in one process: off, the main thread, all threads.

use anyhow::{ensure, Result};
use hindsight_trace_format::slot::SLOT_BYTES;

use super::rounds::{more, warm};
use crate::floor::Floor;
use crate::process::ControlSocket;
use crate::programs::Installed;
use crate::rings;
use crate::statistics::median;
use crate::worker::Worker;

/// Rings of 8 MiB.
const LOG2_RING: u32 = 23;
const FLOOR_POINTS: usize = 200_000;
/// A new ring is written once around before a round, if that takes no longer than this many rounds.
const MOST_ROUNDS_FOR_A_LAP: f64 = 3.0;

/// What tracing costs.
pub(super) struct Costs {
    /// Additional CPU time with the main thread traced, %; each of a round.
    pub(super) main: Vec<f64>,
    /// With all threads.
    pub(super) all: Vec<f64>,
    /// Trace points of the main thread in one piece of work.
    pub(super) points: f64,
    /// CPU time of one piece of work without tracing, in seconds.
    pub(super) off_seconds: f64,
    /// Additional CPU time for each point of the main thread.
    pub(super) point_ns: f64,
    /// Reading the timer and storing 8 bytes, in the same rounds.
    pub(super) floor_ns: f64,
    /// Additional memory with the main thread traced.
    pub(super) memory_main_bytes: f64,
    pub(super) memory_all_bytes: f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Traced {
    Nothing,
    Main,
    All,
}

pub(super) fn measure(program: &Installed, rounds: usize, floor: &mut Floor) -> Result<Costs> {
    let socket = program.socket();
    let configuration = format!(
        "trace=off,ring={LOG2_RING},max-rings=unlimited,socket={}",
        socket.display()
    );
    let (worker, times) = warm(program.worker(&configuration), program.mode())?;
    let mut subject = Subject {
        socket: ControlSocket::connect(&socket)?,
        worker,
        traced: Vec::new(),
    };
    let points = subject.points(times)?;
    let lap = (1 << LOG2_RING) as f64 / SLOT_BYTES as f64 / points;
    let lap = lap.min(times as f64 * MOST_ROUNDS_FOR_A_LAP) as u64 + 1;

    let mut seconds: [Vec<f64>; 3] = Default::default();
    let mut floors = Vec::new();
    let mut memory: [Vec<f64>; 3] = Default::default();
    for round in 0..rounds {
        floors.push(floor.measure(FLOOR_POINTS));
        let mut order = [Traced::Nothing, Traced::Main, Traced::All];
        order.rotate_left(round % seconds.len());
        for traced in order {
            subject.switch(traced)?;
            subject.worker.work(match traced {
                Traced::Nothing => times.div_ceil(8),
                Traced::Main | Traced::All => lap,
            })?;
            let used = subject.worker.work(times)? / times as f64;
            seconds[traced as usize].push(used);
            memory[traced as usize].push(subject.worker.memory()?);
        }
    }
    subject.worker.end()?;
    let [off, main, all] = &seconds;
    let [memory_off, memory_main, memory_all] = memory;
    let pairs = |with: &[f64], f: fn(f64, f64) -> f64| -> Vec<f64> {
        with.iter()
            .zip(off)
            .map(|(&with, &off)| f(with, off))
            .collect()
    };
    Ok(Costs {
        main: pairs(main, more),
        all: pairs(all, more),
        points,
        off_seconds: median(off.iter().copied()),
        point_ns: median(pairs(main, |with, off| with - off)) / points * 1e9,
        floor_ns: median(floors),
        memory_main_bytes: median(memory_main) - median(memory_off.iter().copied()),
        memory_all_bytes: median(memory_all) - median(memory_off),
    })
}

/// A program whose tracing is switched.
struct Subject {
    worker: Worker,
    socket: ControlSocket,
    traced: Vec<u32>,
}

impl Subject {
    fn switch(&mut self, traced: Traced) -> Result<()> {
        for tid in std::mem::take(&mut self.traced) {
            // The thread may have ended.
            let stopped = self.socket.ask(&format!("stop {tid}"));
            ensure!(
                stopped.is_ok() || tid != self.worker.pid(),
                "the main thread is still traced"
            );
        }
        if traced != Traced::Nothing {
            let main = self.worker.pid();
            self.socket.ask(&format!("start {main}"))?;
            self.traced.push(main);
        }
        if traced == Traced::All {
            for tid in self.worker.threads()? {
                // Threads that run no Java code cannot be traced.
                if tid != self.worker.pid() && self.socket.ask(&format!("start {tid}")).is_ok() {
                    self.traced.push(tid);
                }
            }
        }
        Ok(())
    }

    /// Trace points that the main thread passes in one piece of work.
    fn points(&mut self, times: u64) -> Result<f64> {
        self.switch(Traced::Main)?;
        rings::take(&mut self.socket, self.worker.pid())?;
        self.worker.work(times)?;
        let points = rings::take(&mut self.socket, self.worker.pid())?.points();
        ensure!(points > 0, "the main thread recorded nothing");
        Ok(points as f64 / times as f64)
    }
}
