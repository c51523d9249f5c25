// SPDX-License-Identifier: Apache-2.0
//! The shape of trace points in disassembled code, for each instruction set. This is a second description, as text,
//! independent of the emitters, so that an error there is no error here.

use hindsight_lab::Isa;

use super::code::{number, Instruction};

/// Offsets in the thread of the words that compiled code uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) cursor: u64,
    pub(super) poll: u64,
    pub(super) exit: u64,
    pub(super) leaf: u64,
    /// The runtime's entry point that the slow path of an entry calls.
    pub(super) entry: u64,
    pub(super) word_bytes: u64,
}

impl Words {
    /// From the oat header's value: `shared-1/cursor@8,poll@24,exit@32,leaf@40,entry@1000`.
    pub(super) fn parse(value: &str, isa: Isa) -> Option<(&str, Words)> {
        let (form, offsets) = value.split_once("-1/")?;
        let offset = |name: &str| {
            offsets
                .split(',')
                .find_map(|item| item.strip_prefix(name)?.strip_prefix('@')?.parse().ok())
        };
        let words = Words {
            cursor: offset("cursor")?,
            poll: offset("poll")?,
            exit: offset("exit")?,
            leaf: offset("leaf")?,
            entry: offset("entry")?,
            word_bytes: if isa.is_64_bit() { 8 } else { 4 },
        };
        Some((form, words))
    }

    /// Whether an access of `bytes` bytes touches a word of trace points.
    fn concerns(&self, offset: u64, bytes: u64) -> bool {
        let first = self.cursor.min(self.poll).min(self.exit).min(self.leaf);
        let last = self.cursor.max(self.poll).max(self.exit).max(self.leaf);
        let overlaps = |start: u64, end: u64| offset < end && start < offset + bytes;
        overlaps(first, last + self.word_bytes)
            || overlaps(self.entry, self.entry + self.word_bytes)
    }
}

/// The kinds of trace points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// The method's suspend check, with its call of the stub elsewhere in the method.
    PollEntry,
    /// Calls a stub, in a method without a suspend check.
    LeafEntry,
    InlineEntry,
    /// Returns, or jumps to a stub that does.
    TailExit,
    /// Calls a stub, before the frame is left.
    FramedExit,
    InlineExit,
}

impl Kind {
    pub(super) fn is_entry(self) -> bool {
        matches!(self, Kind::PollEntry | Kind::LeafEntry | Kind::InlineEntry)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::PollEntry => "suspend-check entry",
            Kind::LeafEntry => "leaf entry",
            Kind::InlineEntry => "inline entry",
            Kind::TailExit => "tail exit",
            Kind::FramedExit => "framed exit",
            Kind::InlineExit => "inline exit",
        }
    }
}

/// The instructions of a trace point. A step is the text of an instruction, in which `{x}` is any register, the
/// same one for the same letter. `?` before it: the step may be missing. The targets of branches
/// are `DONE`, the end of the trace point, or `WAY`, anywhere else.
pub(super) struct Pattern {
    pub(super) kind: Kind,
    steps: Vec<String>,
}

/// A trace point in a method.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Site {
    pub(super) kind: Kind,
    /// Indices of its instructions.
    pub(super) first: usize,
    pub(super) last: usize,
    /// The target of its branch, unless the branch leads to its end.
    pub(super) way: Option<usize>,
}

/// All shapes of a trace point.
pub(super) fn patterns(isa: Isa, w: &Words) -> Vec<Pattern> {
    let (cursor, poll, exit, leaf) = (hex(w.cursor), hex(w.poll), hex(w.exit), hex(w.leaf));
    let pattern = |kind, steps: &[String]| Pattern {
        kind,
        steps: steps.to_vec(),
    };
    macro_rules! steps {
        ($($step:expr),* $(,)?) => { &[$(format!($step)),*] };
    }
    match isa {
        Isa::X86_64 => vec![
            pattern(
                Kind::PollEntry,
                steps!["cmp word ptr gs:[{poll}], 0", "jne WAY"],
            ),
            pattern(
                Kind::LeafEntry,
                steps![
                    "mov r11, qword ptr gs:[{leaf}]",
                    "test r11, r11",
                    "je DONE",
                    "call r11"
                ],
            ),
            pattern(
                Kind::TailExit,
                steps![
                    "mov rdx, qword ptr gs:[{exit}]",
                    "test rdx, rdx",
                    "jne WAY",
                    "ret"
                ],
            ),
            pattern(
                Kind::InlineEntry,
                steps![
                    "mov r11, qword ptr gs:[{cursor}]",
                    "test r11, r11",
                    "je DONE",
                    "?mov {{s}}, rdx",
                    "mov dword ptr [r11], {{m}}",
                    "rdtsc",
                    "mov dword ptr [r11 + 4], eax",
                    "add r11, 8",
                    "mov qword ptr gs:[{cursor}], r11",
                    "?mov rdx, {{s}}"
                ],
            ),
            pattern(
                Kind::InlineExit,
                steps![
                    "mov r11, qword ptr gs:[{cursor}]",
                    "test r11, r11",
                    "je DONE",
                    "?mov {{s}}, rax",
                    "mov dword ptr [r11], 0",
                    "rdtsc",
                    "mov dword ptr [r11 + 4], eax",
                    "add r11, 8",
                    "mov qword ptr gs:[{cursor}], r11",
                    "?mov rax, {{s}}"
                ],
            ),
        ],
        Isa::Arm64 => vec![
            pattern(
                Kind::PollEntry,
                steps!["ldrh w{{t}}, [x19, #{poll}]", "cbnz w{{t}}, WAY"],
            ),
            pattern(
                Kind::LeafEntry,
                steps![
                    "ldr x16, [x19, #{leaf}]",
                    "cbz x16, DONE",
                    "adr x17, DONE",
                    "br x16"
                ],
            ),
            pattern(
                Kind::TailExit,
                steps!["ldr x16, [x19, #{exit}]", "cbnz x16, WAY", "ret"],
            ),
            pattern(
                Kind::InlineEntry,
                steps![
                    "ldr x16, [x19, #{cursor}]",
                    "cbz x16, DONE",
                    "mrs x17, cntvct_el0",
                    "stp {{m}}, w17, [x16], #8",
                    "str x16, [x19, #{cursor}]"
                ],
            ),
            pattern(
                Kind::InlineExit,
                steps![
                    "ldr x16, [x19, #{cursor}]",
                    "cbz x16, DONE",
                    "mrs x17, cntvct_el0",
                    "stp wzr, w17, [x16], #8",
                    "str x16, [x19, #{cursor}]"
                ],
            ),
        ],
        Isa::Arm => vec![
            pattern(
                Kind::PollEntry,
                steps!["ldrh {{t}}, [sb, #{poll}]", "cmp {{t}}, #0", "bne WAY"],
            ),
            pattern(
                Kind::PollEntry,
                steps!["ldrh {{t}}, [sb, #{poll}]", "cbnz {{t}}, WAY"],
            ),
            pattern(
                Kind::LeafEntry,
                steps![
                    "ldr r4, [sb, #{leaf}]",
                    "cbz r4, DONE",
                    "mov ip, lr",
                    "blx r4"
                ],
            ),
            pattern(
                Kind::FramedExit,
                steps!["ldr r2, [sb, #{exit}]", "cbz r2, DONE", "blx r2"],
            ),
            pattern(
                Kind::TailExit,
                steps!["ldr r2, [sb, #{exit}]", "cbnz r2, WAY", "bx lr"],
            ),
            pattern(
                Kind::InlineEntry,
                steps![
                    "ldr r4, [sb, #{cursor}]",
                    "cbz r4, DONE",
                    "mrrc p15, #1, ip, lr, c14",
                    "strd {{m}}, ip, [r4], #8",
                    "str r4, [sb, #{cursor}]"
                ],
            ),
            pattern(
                Kind::InlineExit,
                steps![
                    "ldr r2, [sb, #{cursor}]",
                    "cbz r2, DONE",
                    "mrrc p15, #1, r3, ip, c14",
                    "mov ip, #0",
                    "strd ip, r3, [r2], #8",
                    "str r2, [sb, #{cursor}]"
                ],
            ),
        ],
    }
}

/// The jump to the stub at the end of a tail exit's slow path.
pub(super) fn way_to_exit(isa: Isa) -> &'static str {
    match isa {
        Isa::X86_64 => "jmp rdx",
        Isa::Arm64 => "br x16",
        Isa::Arm => "bx r2",
    }
}

/// The call of the stub on an entry's slow path: one instruction, or the load and the call.
pub(super) fn call_of_entry(isa: Isa, w: &Words) -> Vec<String> {
    let entry = hex(w.entry);
    match isa {
        Isa::X86_64 => vec![format!("call qword ptr gs:[{entry}]")],
        Isa::Arm64 => vec![format!("ldr x30, [x19, #{entry}]"), "blr x30".to_owned()],
        Isa::Arm => vec![format!("ldr lr, [sb, #{entry}]"), "blx lr".to_owned()],
    }
}

/// The trace point that starts with the instruction at an index.
pub(super) fn site_at(patterns: &[Pattern], code: &[Instruction], first: usize) -> Option<Site> {
    // The most specific shapes come last.
    patterns
        .iter()
        .rev()
        .find_map(|pattern| pattern.matches(code, first))
}

impl Pattern {
    fn matches(&self, code: &[Instruction], first: usize) -> Option<Site> {
        let mut registers: Vec<(&str, String)> = Vec::new();
        let mut next = first;
        let mut to_done = Vec::new();
        let mut way = None;
        for step in &self.steps {
            let (step, optional) = match step.strip_prefix('?') {
                Some(step) => (step, true),
                None => (step.as_str(), false),
            };
            let matched = code
                .get(next)
                .and_then(|instruction| match_step(step, instruction, &mut registers));
            match matched {
                Some(target) => {
                    match target {
                        Target::None => {}
                        Target::Done(target) => to_done.push(target),
                        Target::Way(target) => way = Some(target),
                    }
                    next += 1;
                }
                None if optional => {}
                None => return None,
            }
        }
        let last = next - 1;
        let done = code.get(last)?.end();
        to_done
            .iter()
            .all(|&target| target == done)
            .then_some(Site {
                kind: self.kind,
                first,
                last,
                way,
            })
    }
}

enum Target {
    None,
    Done(usize),
    Way(usize),
}

/// Whether an instruction fits a step. The caller checks the target of a branch.
fn match_step<'a>(
    step: &'a str,
    instruction: &Instruction,
    registers: &mut Vec<(&'a str, String)>,
) -> Option<Target> {
    let (pattern_mnemonic, pattern) = step.split_once(' ').unwrap_or((step, ""));
    if instruction.mnemonic() != pattern_mnemonic {
        return None;
    }
    let operands = instruction.operands();
    for (name, target) in [
        ("DONE", Target::Done as fn(usize) -> Target),
        ("WAY", Target::Way),
    ] {
        if let Some(pattern) = pattern.strip_suffix(name) {
            let target_text = match pattern {
                "" => operands,
                _ => {
                    let (first, last) = operands.rsplit_once(", ")?;
                    match_operands(pattern.trim_end_matches(", "), first, registers)?;
                    last
                }
            };
            let address = number(target_text.trim_start_matches('#'))?;
            return Some(target(address as usize));
        }
    }
    match_operands(pattern, operands, registers)?;
    Some(Target::None)
}

/// Matches a text with a pattern that has `{x}` in it.
fn match_operands<'a>(
    pattern: &'a str,
    text: &str,
    registers: &mut Vec<(&'a str, String)>,
) -> Option<()> {
    let Some((before, rest)) = pattern.split_once('{') else {
        return (pattern == text).then_some(());
    };
    let (name, rest) = rest.split_once('}')?;
    let text = text.strip_prefix(before)?;
    let end = text
        .find(|c: char| !c.is_ascii_alphanumeric())
        .unwrap_or(text.len());
    let (register, text) = text.split_at(end);
    if register.is_empty() {
        return None;
    }
    match registers.iter().find(|(known, _)| *known == name) {
        Some((_, known)) if known != register => return None,
        Some(_) => {}
        None => registers.push((name, register.to_owned())),
    }
    match_operands(rest, text, registers)
}

/// Its name in capstone's notation.
fn hex(number: u64) -> String {
    match number {
        0..=9 => number.to_string(),
        _ => format!("{number:#x}"),
    }
}

/// Whether an instruction touches one of the thread's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touch {
    /// None of them.
    No,
    /// Possibly: the address depends on another register, or is computed for later.
    Perhaps,
    /// One of them.
    Yes,
}

/// The access of an instruction to the thread's words.
pub(super) fn touch(isa: Isa, words: &Words, instruction: &Instruction) -> Touch {
    let (base, thread) = match isa {
        Isa::X86_64 => ("gs:[", "gs:"),
        Isa::Arm64 => ("[x19", ", x19, "),
        Isa::Arm => ("[sb", ", sb, "),
    };
    let decide = |offset: Option<u64>, bytes| match offset {
        Some(offset) if words.concerns(offset, bytes) => Touch::Yes,
        Some(_) => Touch::No,
        None => Touch::Perhaps,
    };
    let Some((_, rest)) = instruction.text.split_once(base) else {
        // The address of a part of the thread, for a later access.
        let Some((_, offset)) = instruction.text.split_once(thread) else {
            return Touch::No;
        };
        let is_address =
            ["add", "sub", "addw", "subw", "adds", "subs"].contains(&instruction.mnemonic());
        return match (isa, is_address) {
            (Isa::X86_64, _) => Touch::Perhaps,
            (_, true) => match decide(number(offset.trim_start_matches('#')), words.word_bytes) {
                Touch::No => Touch::No,
                _ => Touch::Perhaps,
            },
            (_, false) => Touch::No,
        };
    };
    let inside = rest.split(']').next().unwrap_or(rest);
    let offset = match inside.trim_start_matches(", ").trim_start_matches('#') {
        "" => Some(0),
        // Before the thread.
        negative if negative.starts_with('-') => return Touch::No,
        offset => number(offset),
    };
    let mnemonic = instruction.mnemonic();
    let is_wide = ["ldp", "stp", "ldrd", "strd", "movups", "movaps", "movdqu"].contains(&mnemonic)
        || instruction.operands().starts_with('q')
        || instruction.operands().starts_with('d') && isa == Isa::Arm;
    let bytes = if is_wide {
        2 * words.word_bytes
    } else {
        words.word_bytes
    };
    decide(offset, bytes)
}
