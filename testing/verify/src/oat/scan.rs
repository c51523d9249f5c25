// SPDX-License-Identifier: Apache-2.0
//! The rules for the disassembled code of a method.

use std::collections::{BTreeMap, BTreeSet};

use hindsight_lab::Isa;

use super::code::{number, Decoder, Instruction};
use super::sites::{
    call_of_entry, patterns, site_at, touch, way_to_exit, Kind, Pattern, Site, Touch, Words,
};

/// The result for a method.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    /// The number of trace points of each kind.
    pub(super) sites: BTreeMap<Kind, usize>,
    /// Instructions that return from the method.
    pub(super) returns: usize,
    /// Descriptions of the problems.
    pub(super) problems: Vec<String>,
}

/// The trace points that a method must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Expected {
    /// One entry, and an exit at every return.
    All,
    /// None, and no other instruction that touches a word of trace points.
    None,
}

/// Scans methods of one instruction set.
pub(super) struct Scanner {
    decoder: Decoder,
    words: Words,
    patterns: Vec<Pattern>,
}

impl Scanner {
    pub(super) fn new(decoder: Decoder, words: Words) -> Self {
        Scanner {
            patterns: patterns(decoder.isa(), &words),
            decoder,
            words,
        }
    }

    /// Scans the code of a method.
    pub(super) fn method(&self, bytes: &[u8], expected: Expected) -> Findings {
        let mut method = match self.decoder.method(bytes) {
            Ok(code) => Method::new(self, code, bytes.len()),
            Err(e) => {
                return Findings {
                    problems: vec![e.to_string()],
                    ..Findings::default()
                }
            }
        };
        method.check(expected);
        method.findings
    }

    /// Scans the bytes between methods. The starts of instructions are unknown there, so an instruction that touches
    /// a thread's words is a problem at every place where one can start.
    pub(super) fn gap(&self, bytes: &[u8]) -> Vec<String> {
        let mut problems = Vec::new();
        for at in (0..bytes.len()).step_by(self.decoder.granule()) {
            let rest = &bytes[at..];
            if rest.starts_with(&[0, 0]) {
                continue;
            }
            if let Some(instruction) = self.decoder.first(rest) {
                // Most of it is no code, so only certain hits count.
                if touch(self.isa(), &self.words, &instruction) == Touch::Yes {
                    problems.push(format!(
                        "between methods, +{at:#x}: {} touches a word of trace points",
                        instruction.text
                    ));
                }
            }
        }
        problems
    }

    fn isa(&self) -> Isa {
        self.decoder.isa()
    }
}

struct Method<'a> {
    scanner: &'a Scanner,
    code: Vec<Instruction>,
    /// The targets of the method's branches.
    targets: BTreeSet<usize>,
    sites: Vec<Site>,
    /// Indices of instructions that belong to a trace point.
    explained: BTreeSet<usize>,
    findings: Findings,
}

impl<'a> Method<'a> {
    fn new(scanner: &'a Scanner, code: Vec<Instruction>, bytes: usize) -> Self {
        let isa = scanner.isa();
        let targets: BTreeSet<usize> = code
            .iter()
            .filter_map(|i| branch_target(isa, i))
            .filter(|&target| target < bytes)
            .collect();
        Method {
            scanner,
            code,
            targets,
            sites: Vec::new(),
            explained: BTreeSet::new(),
            findings: Findings::default(),
        }
    }

    fn isa(&self) -> Isa {
        self.scanner.isa()
    }

    fn problem(&mut self, index: usize, what: &str) {
        let place = self
            .code
            .get(index)
            .map_or(String::new(), |i| format!("+{:#x} {}: ", i.at, i.text));
        self.findings.problems.push(format!("{place}{what}"));
    }

    fn check(&mut self, expected: Expected) {
        // If data was taken for code, or code for data, branches lead into the middle of instructions.
        let starts: BTreeSet<usize> = self.code.iter().map(|i| i.at).collect();
        for &target in &self.targets {
            if !starts.contains(&target) {
                self.findings.problems.push(format!(
                    "a branch goes to +{target:#x}, where no instruction starts"
                ));
                break;
            }
        }

        self.find_sites();
        for index in 0..self.sites.len() {
            self.check_targets(index);
        }
        self.check_slow_paths();
        let returned = self.check_exits();
        self.findings.returns = (0..self.code.len())
            .filter(|&index| is_return(self.isa(), &self.code[index]))
            .count();

        let strays: Vec<usize> = (0..self.code.len())
            .filter(|index| !self.explained.contains(index))
            .filter(|&index| touch(self.isa(), &self.scanner.words, &self.code[index]) != Touch::No)
            .collect();
        for index in strays {
            self.problem(index, "touches a word of trace points, but belongs to none");
        }
        for site in &self.sites {
            *self.findings.sites.entry(site.kind).or_default() += 1;
        }
        match expected {
            Expected::None => {
                if !self.sites.is_empty() {
                    let first = self.sites[0].first;
                    self.problem(first, "a trace point in a method that must have none");
                }
            }
            Expected::All => {
                self.check_entry();
                let bare: Vec<usize> = (0..self.code.len())
                    .filter(|&index| is_return(self.isa(), &self.code[index]))
                    .filter(|index| !returned.contains(index))
                    .collect();
                for index in bare {
                    self.problem(index, "a return without an exit's trace point");
                }
            }
        }
    }

    fn find_sites(&mut self) {
        let mut index = 0;
        while index < self.code.len() {
            if touch(self.isa(), &self.scanner.words, &self.code[index]) == Touch::Yes {
                if let Some(site) = site_at(&self.scanner.patterns, &self.code, index) {
                    self.explained.extend(site.first..=site.last);
                    index = site.last;
                    self.sites.push(site);
                }
            }
            index += 1;
        }
    }

    /// Finds branches into a trace point behind its start: they would skip the test of the word, or record an exit
    /// without its test.
    fn check_targets(&mut self, site: usize) {
        let Site { first, last, .. } = self.sites[site];
        let inside = self.code[first].end()..self.code[last].end();
        if let Some(&target) = self.targets.range(inside).next() {
            self.problem(
                first,
                &format!("a branch goes into this trace point, to +{target:#x}"),
            );
        }
    }

    fn index_at(&self, at: usize) -> Option<usize> {
        self.code.binary_search_by_key(&at, |i| i.at).ok()
    }

    /// The slow path of a suspend check that is an entry: the call of the stub, and the way back.
    fn check_slow_paths(&mut self) {
        let isa = self.isa();
        let call = call_of_entry(isa, &self.scanner.words);
        for site in 0..self.sites.len() {
            let Site {
                kind: Kind::PollEntry,
                first,
                last,
                way: Some(way),
            } = self.sites[site]
            else {
                continue;
            };
            let back = self.code[last].end();
            let Some(start) = self.index_at(way) else {
                self.problem(first, "no instruction at the start of the slow path");
                continue;
            };
            let mut calls = Vec::new();
            let mut index = start;
            let returns = loop {
                let Some(instruction) = self.code.get(index) else {
                    break false;
                };
                if call_matches(&self.code, index, &call) {
                    calls.push(index);
                    index += call.len();
                } else if let Some(target) = branch_target(isa, instruction) {
                    break target == back && !is_conditional(instruction);
                } else if leaves(isa, instruction) || is_call(instruction) {
                    break false;
                } else {
                    index += 1;
                }
            };
            for &call_index in &calls {
                self.explained.extend(call_index..call_index + call.len());
            }
            if calls.len() != 1 || !returns {
                self.problem(
                    start,
                    "the slow path of an entry does not call the stub once and come back",
                );
            }
        }
    }

    /// Matches exits with the instructions that return, and returns these.
    fn check_exits(&mut self) -> BTreeSet<usize> {
        let isa = self.isa();
        let way_text = way_to_exit(isa);
        let mut returned = BTreeSet::new();
        // A jump to the stub is only right behind the return of a tail exit.
        let ways: BTreeSet<usize> = self
            .sites
            .iter()
            .filter(|site| site.kind == Kind::TailExit)
            .filter_map(|site| self.code.get(site.last + 1))
            .filter(|instruction| instruction.text == way_text)
            .map(|instruction| instruction.at)
            .collect();
        for site in 0..self.sites.len() {
            let Site {
                kind,
                first,
                last,
                way,
            } = self.sites[site];
            let returning = match kind {
                Kind::TailExit => {
                    if !way.is_some_and(|way| ways.contains(&way)) {
                        self.problem(first, "this exit has no way to the stub");
                    }
                    Some(last)
                }
                Kind::FramedExit | Kind::InlineExit => self.straight_to_return(last + 1),
                _ => continue,
            };
            match returning {
                None => self.problem(first, "an exit without a return behind it"),
                Some(index) => {
                    if !returned.insert(index) {
                        self.problem(index, "two exits for one return");
                    }
                }
            }
        }
        returned
    }

    /// The return that is always reached from an instruction.
    fn straight_to_return(&self, from: usize) -> Option<usize> {
        let isa = self.isa();
        let mut index = from;
        // The first is the target of the trace point's own branch.
        let mut entered = true;
        // There may be a constant pool, with a branch over it.
        let mut pools = 0;
        loop {
            let instruction = self.code.get(index)?;
            if !entered && self.targets.contains(&instruction.at) {
                return None;
            }
            if is_return(isa, instruction) {
                return Some(index);
            }
            entered = false;
            match branch_target(isa, instruction) {
                Some(target) if target > instruction.at && !is_conditional(instruction) => {
                    pools += 1;
                    if pools > 1 || self.branches_to(target) != 1 {
                        return None;
                    }
                    index = self.index_at(target)?;
                    entered = true;
                }
                _ if leaves(isa, instruction) || is_call(instruction) => return None,
                _ => index += 1,
            }
        }
    }

    fn branches_to(&self, at: usize) -> usize {
        let isa = self.isa();
        self.code
            .iter()
            .filter(|i| branch_target(isa, i) == Some(at))
            .count()
    }

    /// Checks that there is exactly one entry, on a straight way from the method's start, and that its stub finds the method.
    fn check_entry(&mut self) {
        let entries: Vec<(Kind, usize, usize)> = self
            .sites
            .iter()
            .filter(|site| site.kind.is_entry())
            .map(|site| (site.kind, site.first, site.last))
            .collect();
        let [(kind, first, last)] = entries[..] else {
            let count = entries.len();
            self.findings
                .problems
                .push(format!("{count} entries instead of 1"));
            return;
        };
        let isa = self.isa();
        let code = &self.code;
        let is_straight = code[..first]
            .iter()
            .all(|i| !leaves(isa, i) && branch_target(isa, i).is_none() && !is_call(i));
        // The start itself may be a target: of a recursive call.
        let is_entered = self.targets.range(1..code[last].at).next().is_some();
        if !is_straight || is_entered {
            self.problem(
                first,
                "the entry is not on the straight way from the method's start",
            );
        }
        let has_method = match kind {
            Kind::PollEntry => self.code[..first].iter().any(|i| stores_method(isa, i)),
            Kind::LeafEntry => !self.code[..first].iter().any(|i| writes_method(isa, i)),
            _ => true,
        };
        if !has_method {
            self.problem(first, "the stub cannot find the method here");
        }
    }
}

fn call_matches(code: &[Instruction], index: usize, call: &[String]) -> bool {
    call.iter().enumerate().all(|(offset, text)| {
        code.get(index + offset).is_some_and(|instruction| {
            let (mnemonic, operands) = text.split_once(' ').unwrap_or((text, ""));
            instruction.mnemonic() == mnemonic && instruction.operands() == operands
        })
    })
}

/// Whether the instruction stores the method at the stack pointer, where a stack walk and the stub look for it.
fn stores_method(isa: Isa, instruction: &Instruction) -> bool {
    let operands = instruction.operands();
    match isa {
        Isa::X86_64 => instruction.text == "mov qword ptr [rsp], rdi",
        Isa::Arm64 => {
            matches!(instruction.mnemonic(), "str" | "stp")
                && operands.starts_with("x0, ")
                && (operands.ends_with("[sp]") || operands.ends_with("]!"))
        }
        Isa::Arm => {
            instruction.mnemonic() == "str"
                && operands.starts_with("r0, [sp")
                && (operands.ends_with("[sp]") || operands.ends_with("]!"))
                || instruction.mnemonic() == "push" && operands.starts_with("{r0")
        }
    }
}

/// Whether the instruction changes the register that holds the method at the start.
fn writes_method(isa: Isa, instruction: &Instruction) -> bool {
    let first = instruction
        .operands()
        .split(", ")
        .next()
        .unwrap_or_default();
    let registers: &[&str] = match isa {
        Isa::X86_64 => &["rdi", "edi", "di", "dil"],
        Isa::Arm64 => &["x0", "w0"],
        Isa::Arm => &["r0"],
    };
    let reads_first = matches!(
        instruction.mnemonic(),
        "str" | "strb" | "strh" | "stp" | "strd" | "stur" | "cmp" | "test" | "push" | "tst"
    );
    !reads_first && registers.contains(&first)
}

fn is_return(isa: Isa, instruction: &Instruction) -> bool {
    let operands = instruction.operands();
    match (isa, instruction.mnemonic()) {
        (Isa::X86_64 | Isa::Arm64, "ret") => true,
        (Isa::Arm, "bx") => operands == "lr",
        (Isa::Arm, "pop" | "ldm") => operands.contains("pc"),
        (Isa::Arm, "ldr") => operands.starts_with("pc, [sp]"),
        _ => false,
    }
}

/// Whether control may leave the sequence of instructions, other than by a call.
fn leaves(isa: Isa, instruction: &Instruction) -> bool {
    let mnemonic = instruction.mnemonic();
    if is_return(isa, instruction) || branch_target(isa, instruction).is_some() {
        return true;
    }
    match isa {
        Isa::X86_64 => mnemonic == "jmp" || mnemonic.starts_with("int3") || mnemonic == "ud2",
        Isa::Arm64 => matches!(mnemonic, "br" | "brk"),
        Isa::Arm => {
            matches!(mnemonic, "bx" | "bkpt" | "tbb" | "tbh")
                || instruction.operands().starts_with("pc")
        }
    }
}

fn is_call(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), "call" | "bl" | "blr" | "blx")
}

fn is_conditional(instruction: &Instruction) -> bool {
    !matches!(instruction.mnemonic(), "jmp" | "b")
}

/// The target of a direct branch, conditional or not; none for a call.
fn branch_target(isa: Isa, instruction: &Instruction) -> Option<usize> {
    let mnemonic = instruction.mnemonic();
    let is_branch = match isa {
        Isa::X86_64 => mnemonic.starts_with('j'),
        Isa::Arm64 => {
            mnemonic == "b"
                || mnemonic.starts_with("b.")
                || matches!(mnemonic, "cbz" | "cbnz" | "tbz" | "tbnz")
        }
        Isa::Arm => {
            matches!(mnemonic, "b" | "cbz" | "cbnz")
                || mnemonic.len() == 3
                    && mnemonic.starts_with('b')
                    && !matches!(mnemonic, "bic" | "bfi" | "bfc" | "blx")
        }
    };
    if !is_branch {
        return None;
    }
    let operands = instruction.operands();
    let target = operands.rsplit(", ").next().unwrap_or(operands);
    number(target.trim_start_matches('#')).map(|target| target as usize)
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
