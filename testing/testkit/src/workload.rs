// SPDX-License-Identifier: Apache-2.0
//! Traces of any size with the shape of real ones, for benchmarks.
//!
//! A random program runs: its methods have bodies of calls, some in loops, some conditional. So the trace has the
//! properties of real ones that matter to branch predictors, caches and exporters: sequences repeat with small
//! differences, few methods make most of the calls, and half of the calls are leaves. `docs/file-formats.md` explains the
//! parameters.

use crate::random::Random;
use crate::{Script, ThreadIndex};

/// Parameters of the program.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Same seed, same trace.
    pub seed: u64,
    /// Size of each ring, `2^k` bytes.
    pub ring_log2_bytes: u32,
    /// How often each ring is filled.
    pub laps: f64,
    /// Threads.
    pub threads: u32,
    /// Methods in the program; about half of them are called in a ring.
    pub methods: usize,
    /// Methods of a thousand that are leaves: they call nothing.
    pub leaves_per_mille: u64,
    /// Depth from which on methods call leaves only.
    pub max_depth: usize,
    /// Calls of native methods per thousand calls; they have events of their own.
    pub native_per_mille: u64,
    /// Methods at addresses above 4 GiB per thousand methods.
    pub wide_per_mille: u64,
}

impl Default for Workload {
    fn default() -> Self {
        Workload {
            seed: 1,
            ring_log2_bytes: 25,
            laps: 1.5,
            threads: 1,
            methods: 12_000,
            leaves_per_mille: 550,
            max_depth: 70,
            native_per_mille: 0,
            wide_per_mille: 0,
        }
    }
}

struct Call {
    callee: usize,
    /// How often it runs: `times.0 ..= times.1`.
    times: (u64, u64),
    /// Passes of a thousand that make this call.
    taken_per_mille: u64,
}

struct Method {
    address: u64,
    native: bool,
    body: Vec<Call>,
    /// Time between its trace points, ns.
    work_ns: u64,
}

struct Frame {
    method: usize,
    at: usize,
    /// Of the call at `at`; `None`: not decided.
    left: Option<u64>,
}

impl Workload {
    /// Runs the program, and records it.
    pub fn script(&self) -> Script {
        let mut random = Random::new(self.seed);
        let mut script = Script::new("com.example.workload");
        script.ring_log2_bytes(self.ring_log2_bytes);
        let methods = self.program(&mut random, &mut script);
        let points = (self.laps * ((1_u64 << self.ring_log2_bytes) / 8) as f64) as usize;
        for i in 0..self.threads {
            let thread = script.thread(300 + i, if i == 0 { "main" } else { "worker" });
            self.run(&methods, points, thread, &mut random, &mut script);
        }
        script
    }

    fn program(&self, random: &mut Random, script: &mut Script) -> Vec<Method> {
        let leaves_from = self.methods as u64 * (1_000 - self.leaves_per_mille.min(1_000)) / 1_000;
        (0..self.methods as u64)
            .map(|i| {
                let name = format!("com.example.app.part{}.Class{}.method{i}", i / 200, i / 12);
                let signature = ["()V", "(I)I", "(Ljava/lang/String;J)Z"][i as usize % 3];
                let mut address = script.method(&name, signature);
                if random.of_a_thousand(self.wide_per_mille) {
                    address |= 0x7f_0000_0000;
                    if let Some(symbol) = script.symbols.last_mut() {
                        symbol.address = address;
                    }
                }
                let calls = if i >= leaves_from {
                    0
                } else {
                    1 + random.below(6)
                };
                let body = (0..calls)
                    .map(|_| {
                        // Later methods are deeper in the program. Small numbers among them are popular: the
                        // square makes a tenth of the methods take about half of the calls.
                        let leaf = random.of_a_thousand(500);
                        let (from, to) = if leaf {
                            (leaves_from, self.methods as u64)
                        } else {
                            (
                                i + 1,
                                (i + 1 + self.methods as u64 / 8).min(leaves_from.max(i + 2)),
                            )
                        };
                        let span = to - from;
                        let skewed = (random.below(1 << 20) as f64 / (1 << 20) as f64).powi(2);
                        let callee = from + (skewed * span as f64) as u64;
                        let in_loop = random.of_a_thousand(120);
                        Call {
                            callee: (callee as usize).min(self.methods - 1),
                            times: if in_loop {
                                (2, 2 + random.below(10))
                            } else {
                                (1, 1)
                            },
                            taken_per_mille: [1_000, 1_000, 900, 500, 100]
                                [random.below(5) as usize],
                        }
                    })
                    .collect();
                Method {
                    address,
                    native: random.of_a_thousand(self.native_per_mille),
                    body,
                    work_ns: 15 + random.below(60),
                }
            })
            .collect()
    }

    fn run(
        &self,
        methods: &[Method],
        points: usize,
        thread: ThreadIndex,
        random: &mut Random,
        script: &mut Script,
    ) {
        let mut recorder = script.at(thread, 0);
        let mut stack: Vec<Frame> = Vec::new();
        let mut recorded = 0;
        let mut next_anchor = 0;
        while recorded < points {
            // The control thread samples at less than half a wrap.
            if recorder.now() >= next_anchor {
                recorder.anchor();
                next_anchor = recorder.now() + 500_000_000;
            }
            let Some(frame) = stack.last_mut() else {
                // The looper waits, then takes the next message.
                recorder.after(random.below(200_000));
                stack.push(Frame {
                    method: random.below(self.methods as u64 / 4) as usize,
                    at: 0,
                    left: None,
                });
                recorder.enter(methods[stack[0].method].address);
                recorded += 1;
                continue;
            };
            let method = &methods[frame.method];
            recorder.after(method.work_ns / 2 + random.below(method.work_ns));
            let Some(call) = method.body.get(frame.at) else {
                if method.native {
                    recorder.extension(crate::Extension::NativeLeft, &[]);
                } else {
                    recorder.exit();
                }
                recorded += 1;
                stack.pop();
                continue;
            };
            let left = match frame.left {
                Some(left) => left,
                None if random.of_a_thousand(call.taken_per_mille) => {
                    call.times.0 + random.below(call.times.1 - call.times.0 + 1)
                }
                None => 0,
            };
            if left == 0 {
                frame.at += 1;
                frame.left = None;
                continue;
            }
            frame.left = Some(left - 1);
            let callee = &methods[call.callee];
            if stack.len() >= self.max_depth && !callee.body.is_empty() {
                continue;
            }
            if callee.native {
                recorder.extension(crate::Extension::NativeEntered, &[callee.address]);
                recorded += 1;
            } else {
                recorder.enter(callee.address);
            }
            recorded += 1;
            stack.push(Frame {
                method: call.callee,
                at: 0,
                left: None,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_trace() {
        let workload = Workload {
            ring_log2_bytes: 14,
            native_per_mille: 50,
            wide_per_mille: 50,
            ..Workload::default()
        };
        let other = Workload {
            seed: 2,
            ..workload
        };
        assert_eq!(workload.script().encode(), workload.script().encode());
        assert!(workload.script().encode() != other.script().encode());
    }
}
