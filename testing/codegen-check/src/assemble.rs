// SPDX-License-Identifier: Apache-2.0
//! Compares machine code with the output of GNU as and LLVM for the same text.

use std::path::Path;
use std::process::Command;

use crate::tools::missing;
use crate::Isa;

/// A program and its arguments before the output file.
type Assembler = (&'static str, &'static [&'static str]);

const fn assemblers(isa: Isa) -> [Assembler; 3] {
    match isa {
        Isa::Aarch64 => {
            const LLVM: &[&str] = &["-triple=aarch64-linux-gnu", "-filetype=obj", "-o"];
            [
                ("aarch64-linux-gnu-as", &["-o"]),
                ("llvm-mc", LLVM),
                ("llvm-mc-14", LLVM),
            ]
        }
        Isa::Thumb2 => {
            const LLVM: &[&str] = &["-triple=thumbv7-linux-gnueabihf", "-filetype=obj", "-o"];
            [
                ("arm-linux-gnueabihf-as", &["-o"]),
                ("llvm-mc", LLVM),
                ("llvm-mc-14", LLVM),
            ]
        }
        Isa::X86_64 => {
            const LLVM: &[&str] = &["-triple=x86_64-linux-gnu", "-filetype=obj", "-o"];
            [
                ("as", &["--64", "-o"]),
                ("llvm-mc", LLVM),
                ("llvm-mc-14", LLVM),
            ]
        }
    }
}

/// Compares `emitted` with the output of each installed assembler for `source` (AT&T syntax for x86-64; for Thumb this
/// prepends the directives that select it). Returns the assemblers that are installed.
///
/// # Panics
/// If the output of an assembler differs, or it rejects the source. If no assembler is installed and
/// `HINDSIGHT_REQUIRE_TOOLS` is 1.
pub fn assert_assemblers_agree(isa: Isa, source: &str, emitted: &[u8]) -> Vec<&'static str> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [text, object] = ["code.s", "code.o"].map(|file| folder.path().join(file));
    let directives = match isa {
        Isa::Thumb2 => ".syntax unified\n.arch armv7-a\n.arch_extension mp\n.thumb\n.text\n",
        _ => ".text\n",
    };
    std::fs::write(&text, format!("{directives}{source}")).expect("the source is written");

    let mut compared = Vec::new();
    for (program, flags) in assemblers(isa) {
        if !runs(program, flags, &[&object, &text]) {
            continue;
        }
        let file = std::fs::read(&object).expect("the assembler made an object");
        let assembled = text_section(&file);
        let same = assembled
            .iter()
            .zip(emitted)
            .take_while(|(a, b)| a == b)
            .count();
        assert_eq!(
            same,
            emitted.len(),
            "{program} differs from byte {same} on: {:02x?}, not {:02x?}",
            &assembled[same..assembled.len().min(same + 16)],
            &emitted[same..emitted.len().min(same + 16)],
        );
        // Assemblers pad sections of Thumb code.
        assert!(
            assembled.len() - same < 4,
            "{program} emits more than {same} bytes"
        );
        compared.push(program);
    }
    if compared.is_empty() {
        missing(assemblers(isa)[0].0);
    }
    compared
}

fn runs(program: &str, flags: &[&str], files: &[&Path]) -> bool {
    match Command::new(program).args(flags).args(files).output() {
        Ok(output) => {
            let complaint = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{program}: {complaint}");
            true
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => false,
        Err(e) => panic!("{program}: {e}"),
    }
}

/// The contents of the section `.text` of a little-endian ELF file.
fn text_section(object: &[u8]) -> &[u8] {
    let number = |at: usize, bytes: usize| {
        let mut value = [0; 8];
        value[..bytes].copy_from_slice(&object[at..at + bytes]);
        u64::from_le_bytes(value) as usize
    };
    assert_eq!(&object[..4], b"\x7fELF");
    let is_64 = object[4] == 2;
    // In the ELF header: offsets of the section headers' offset, size, number, and of the names' index. In a section
    // header: offsets of the section's offset and length. Then the size of an offset.
    let (headers, size, count, names, place, length, word) = if is_64 {
        (0x28, 0x3a, 0x3c, 0x3e, 0x18, 0x20, 8)
    } else {
        (0x20, 0x2e, 0x30, 0x32, 0x10, 0x14, 4)
    };
    let header = |i: usize| number(headers, word) + i * number(size, 2);
    let names = number(header(number(names, 2)) + place, word);
    let text = (0..number(count, 2))
        .map(header)
        .find(|h| object[names + number(*h, 4)..].starts_with(b".text\0"))
        .expect("a section .text");
    &object[number(text + place, word)..][..number(text + length, word)]
}
