// SPDX-License-Identifier: Apache-2.0
//! The filter of system calls for an app in the lab: Android's list (`seccomp/app.txt`), and what glibc needs beside it
//! (`seccomp/glibc.txt`), as a program for the kernel.

use anyhow::{bail, ensure, Context as _, Result};
use std::collections::BTreeMap;

const APP: &str = include_str!("../seccomp/app.txt");
const GLIBC: &str = include_str!("../seccomp/glibc.txt");
/// The numbers of the kernel's calls on x86-64.
const HEADER: &str = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h";

// Opcodes and answers of linux/bpf_common.h, linux/seccomp.h and linux/audit.h.
const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const OFFSET_NUMBER: u32 = 0;
const OFFSET_ARCHITECTURE: u32 = 4;
const ARCHITECTURE: u32 = 0xc000_003e;
const ALLOW: u32 = 0x7fff_0000;
/// SIGSYS, as bionic's filter answers.
const TRAP: u32 = 0x0003_0000;
/// The error ENOSYS.
const ABSENT: u32 = 0x0005_0000 | 38;

/// The answer to each system call that is not forbidden, by its number.
type Answers = BTreeMap<u32, u32>;

/// The filter as the kernel takes it: instructions of eight bytes.
///
/// # Errors
/// If the kernel's header is missing, or a list is wrong.
pub(crate) fn filter() -> Result<Vec<u8>> {
    let header = std::fs::read_to_string(HEADER).with_context(|| {
        format!("cannot read {HEADER}: install the Debian package linux-libc-dev")
    })?;
    Ok(program(&answers(&numbers(&header), APP, GLIBC)?))
}

/// The numbers of system calls, from the kernel's header.
fn numbers(header: &str) -> BTreeMap<&str, u32> {
    header
        .lines()
        .filter_map(|line| {
            let mut words = line.strip_prefix("#define __NR_")?.split_whitespace();
            Some((words.next()?, words.next()?.parse().ok()?))
        })
        .collect()
}

fn answers(numbers: &BTreeMap<&str, u32>, app: &str, glibc: &str) -> Result<Answers> {
    let number = |name: &str| {
        let found = numbers.get(name).copied();
        found.with_context(|| format!("the kernel's header has no system call {name}"))
    };
    let mut answers = Answers::new();
    for line in without_comments(app) {
        for name in line.split_whitespace() {
            let old = answers.insert(number(name)?, ALLOW);
            ensure!(old.is_none(), "{name} is in the list twice");
        }
    }
    for line in without_comments(glibc) {
        let (answer, name) = match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["allow", name] => (ALLOW, *name),
            ["absent", name] => (ABSENT, *name),
            _ => bail!("not 'allow NAME' or 'absent NAME': {line}"),
        };
        let old = answers.insert(number(name)?, answer);
        ensure!(old.is_none(), "{name} is in Android's list, too");
    }
    Ok(answers)
}

fn without_comments(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .map(|line| {
            line.split_once('#')
                .map_or(line, |(before, _)| before)
                .trim()
        })
        .filter(|line| !line.is_empty())
}

fn program(answers: &Answers) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut instruction = |code: u16, if_true: u8, if_false: u8, value: u32| {
        bytes.extend(code.to_ne_bytes());
        bytes.extend([if_true, if_false]);
        bytes.extend(value.to_ne_bytes());
    };
    instruction(LOAD, 0, 0, OFFSET_ARCHITECTURE);
    instruction(JUMP_IF_EQUAL, 1, 0, ARCHITECTURE);
    instruction(RETURN, 0, 0, TRAP);
    instruction(LOAD, 0, 0, OFFSET_NUMBER);
    for (number, answer) in answers {
        instruction(JUMP_IF_EQUAL, 0, 1, *number);
        instruction(RETURN, 0, 0, *answer);
    }
    instruction(RETURN, 0, 0, TRAP);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: &str = "#define __NR_read 0\n#define __NR_write 1\n#define __NR_rseq 334\n";

    #[test]
    fn the_lists_are_sound() {
        let filter = filter().unwrap();
        assert_eq!(filter.len() % 8, 0);
        // The kernel takes 4096 instructions.
        assert!(filter.len() / 8 < 4096);
    }

    #[test]
    fn a_wrong_list_is_rejected() {
        let numbers = numbers(NUMBERS);
        let said = |app, glibc| answers(&numbers, app, glibc).unwrap_err().to_string();
        assert!(said("read raed", "").contains("no system call raed"));
        assert!(said("read\nread", "").contains("read is in the list twice"));
        assert!(said("read", "allow read").contains("in Android's list, too"));
        assert!(said("read", "permit write").contains("not 'allow NAME'"));
    }

    #[test]
    fn each_call_has_its_answer_and_all_others_are_trapped() {
        let numbers = numbers(NUMBERS);
        let filter = program(&answers(&numbers, "read # a comment", "absent rseq").unwrap());
        let answer = |number: u32, architecture: u32| {
            let (mut at, mut accumulator) = (0, 0);
            loop {
                let word: [u8; 8] = filter[at * 8..at * 8 + 8].try_into().unwrap();
                let value = u32::from_ne_bytes(word[4..].try_into().unwrap());
                at += 1;
                match u16::from_ne_bytes([word[0], word[1]]) {
                    LOAD if value == OFFSET_NUMBER => accumulator = number,
                    LOAD => accumulator = architecture,
                    JUMP_IF_EQUAL => {
                        at += usize::from(if accumulator == value {
                            word[2]
                        } else {
                            word[3]
                        });
                    }
                    _ => return value,
                }
            }
        };
        assert_eq!(answer(0, ARCHITECTURE), ALLOW);
        assert_eq!(answer(334, ARCHITECTURE), ABSENT);
        assert_eq!(answer(1, ARCHITECTURE), TRAP);
        // The same number is another call for a 32-bit program.
        assert_eq!(answer(0, 0x4000_0003), TRAP);
    }
}
