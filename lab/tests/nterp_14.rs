// SPDX-License-Identifier: Apache-2.0
//! Android 14's nterp, assembled for each instruction set with trace points: in the disassembly, every entry of a method
//! and every return has one. It asks whether the method has trace points in builds that may leave some out, only.
//!
//! Needs the sources and the sysroot of `cargo xtask lab build --release 14`, the C library's headers in the
//! sysroots of Android 10's labs for ARM, and clang-19.

use std::path::{Path, PathBuf};
use std::process::Command;

/// An instruction set: its compiler options and the instructions of its trace points.
struct Isa {
    name: &'static str,
    target: &'static [&'static str],
    /// The sysroot with the C library: its release and instruction set.
    sysroot: &'static str,
    pointer_size: u64,
    /// The beginnings of the instructions of an entry and of an exit, `@` being the offset of the word in the thread.
    entry: &'static [&'static str],
    exit: &'static [&'static str],
    /// What stands before them in builds that ask; `call` is a call of the function that says whether the method has trace
    /// points.
    entry_asks: &'static [&'static str],
    exit_asks: &'static [&'static str],
    /// Whether an instruction returns to the caller.
    is_return: fn(&str) -> bool,
}

const ISAS: [Isa; 3] = [
    Isa {
        name: "x86_64",
        target: &["--target=x86_64-linux-gnu"],
        sysroot: "android-14/sysroots/x86_64",
        pointer_size: 8,
        #[rustfmt::skip]
        entry: &["movq %gs:@, %r11", "testq %r11, %r11", "je", "callq *%r11"],
        exit: &["movq %gs:@, %rdx", "testq %rdx, %rdx", "je", "callq *%rdx"],
        #[rustfmt::skip]
        entry_asks: &[
            "cmpq $0x0, %gs:@", "je", "call", "movq (%rsp), %rdi", "testl %eax, %eax", "jne",
        ],
        #[rustfmt::skip]
        exit_asks: &[
            "cmpq $0x0, %gs:@", "je", "movq (%rsp), %rdi", "subq $0x10, %rsp", "movq %rax, (%rsp)",
            "movq %xmm0, 0x8(%rsp)", "call", "movl %eax, %ecx", "movq 0x8(%rsp), %xmm0", "movq (%rsp), %rax",
            "addq $0x10, %rsp", "testl %ecx, %ecx", "jne",
        ],
        is_return: |line| line.starts_with("ret"),
    },
    Isa {
        name: "arm64",
        target: &["--target=aarch64-linux-gnu", "-march=armv8-a"],
        sysroot: "android-10/sysroots/arm64",
        pointer_size: 8,
        #[rustfmt::skip]
        entry: &["ldr x16, [x19, #@]", "cbz x16,", "adr x17,", "br x16"],
        exit: &["ldr x16, [x19, #@]", "cbz x16,", "blr x16"],
        #[rustfmt::skip]
        entry_asks: &[
            "ldr x16, [x19, #@]", "cbz x16,", "call", "mov w1, w0", "ldr x0, [sp]", "cbnz w1,",
        ],
        #[rustfmt::skip]
        exit_asks: &[
            "ldr x16, [x19, #@]", "cbz x16,", "ldr x16, [sp]", "str x0, [sp, #-0x10]!", "str d0, [sp, #0x8]",
            "mov x0, x16", "call", "mov w1, w0", "ldr d0, [sp, #0x8]", "ldr x0, [sp], #0x10", "cbnz w1,",
        ],
        is_return: |line| line == "ret",
    },
    Isa {
        name: "arm",
        target: &[
            "--target=arm-linux-gnueabihf",
            "-march=armv7-a",
            "-mfpu=neon",
            "-mfloat-abi=hard",
            "-mthumb",
        ],
        sysroot: "android-10/sysroots/arm",
        pointer_size: 4,
        entry: &[
            "ldr r4, [r9, #@]",
            "cmp r4, #0",
            "beq",
            "mov r12, lr",
            "blx r4",
        ],
        #[rustfmt::skip]
        exit: &["ldr r2, [r9, #@]", "cmp r2, #0", "beq", "blx r2", "ldr r12, [r6, #-0x4]"],
        #[rustfmt::skip]
        entry_asks: &[
            "ldr r4, [r9, #@]", "cmp r4, #0", "beq", "call", "mov r1, r0", "ldr r0, [sp]", "cmp r1, #0", "bne",
        ],
        #[rustfmt::skip]
        exit_asks: &[
            "ldr r2, [r9, #@]", "cmp r2, #0", "beq", "ldr r2, [sp]", "sub sp, sp, #", "strd r0, r1, [sp]", "vstr d0, [sp,",
            "mov r0, r2", "call", "mov r2, r0", "vldr d0, [sp,", "ldrd r0, r1, [sp]", "add sp, sp, #", "cmp r2, #0", "bne",
        ],
        is_return: |line| line.starts_with("pop") && line.ends_with("pc}"),
    },
];

/// The folders of ART's headers that asm_defines.cc needs.
const INCLUDES: [&str; 15] = [
    ".",
    "runtime",
    "libartbase",
    "libartpalette/include",
    "libdexfile",
    "libdexfile/external/include",
    "libelffile",
    "libprofile",
    "cmdline",
    "sigchainlib",
    "odrefresh/include",
    "tools/cpp-define-generator",
    "libnativebridge/include",
    "libnativeloader/include",
    "compiler",
];

const DEFINES: &str = "-DART_BASE_ADDRESS=0x60000000 -DART_BASE_ADDRESS_MIN_DELTA=-0x1000000 \
    -DART_BASE_ADDRESS_MAX_DELTA=0x1000000 -DART_DEFAULT_COMPACT_DEX_LEVEL=fast \
    -DART_DEFAULT_GC_TYPE_IS_CMC -DART_FRAME_SIZE_LIMIT=1736 -DART_READ_BARRIER_TYPE_IS_BAKER=1 \
    -DART_USE_READ_BARRIER=1 -DART_USE_GENERATIONAL_CC=1 -DART_STACK_OVERFLOW_GAP_arm=8192 \
    -DART_STACK_OVERFLOW_GAP_arm64=8192 -DART_STACK_OVERFLOW_GAP_riscv64=8192 \
    -DART_STACK_OVERFLOW_GAP_x86=8192 -DART_STACK_OVERFLOW_GAP_x86_64=8192 -DBUILDING_LIBART=1 \
    -DIMT_SIZE=43 -DUSE_D8_DESUGAR=1 -DNDEBUG -D_FILE_OFFSET_BITS=64 -D_GNU_SOURCE";

fn run(command: &mut Command) -> Vec<u8> {
    let output = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(
        output.status.success(),
        "{command:?}:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

/// Nterp as an object file, disassembled; and the offset of the cursor in the thread.
fn disassemble(isa: &Isa, lab: &Path, work: &Path) -> (String, u64) {
    let art = lab.join("android-14/hindsight/src/art");
    let android = lab.join("android-14/sysroots/x86_64/usr/include");
    let clang = |compiler: &str| {
        let mut command = Command::new(compiler);
        command
            .args(isa.target)
            .arg(format!("--sysroot={}", lab.join(isa.sysroot).display()))
            .args(["-w", "-fPIC"])
            .args(DEFINES.split_whitespace())
            .arg(format!("-DART_ENABLE_CODEGEN_{}", isa.name))
            .arg("-I")
            .arg(work)
            .arg("-I")
            .arg(Path::new(env!("HINDSIGHT_CHECKOUT")).join("art-hooks/include"));
        for folder in INCLUDES {
            command.arg("-I").arg(art.join(folder));
        }
        for folder in ["android", "android/nativehelper"] {
            command.arg("-I").arg(android.join(folder));
        }
        command
    };
    // The only header outside Android's own folder; its folder also has headers of another architecture.
    std::fs::copy(android.join("tinyxml2.h"), work.join("tinyxml2.h")).unwrap();

    let generator = art.join("tools/cpp-define-generator");
    let text = work.join("asm_defines.s");
    run(clang("clang++-19")
        .args(["-std=gnu++17", "-O1", "-fno-rtti", "-fno-exceptions", "-S"])
        .arg(generator.join("asm_defines.cc"))
        .arg("-o")
        .arg(&text));
    let header = run(Command::new("python3")
        .arg(generator.join("make_header.py"))
        .arg(&text));
    std::fs::write(work.join("asm_defines.h"), &header).unwrap();

    let mterp = art.join("runtime/interpreter/mterp");
    let mut parts: Vec<PathBuf> = std::fs::read_dir(mterp.join(format!("{}ng", isa.name)))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    parts.sort();
    let source = work.join("mterp.S");
    run(Command::new("python3")
        .arg(mterp.join("gen_mterp.py"))
        .arg(&source)
        .args(&parts));
    let object = work.join("mterp.o");
    run(clang("clang-19")
        .arg("-c")
        .arg(&source)
        .arg("-o")
        .arg(&object));
    let text = run(Command::new("llvm-objdump-19")
        .args([
            "-dr",
            "--no-show-raw-insn",
            "--no-leading-addr",
            "--print-imm-hex",
        ])
        .arg(&object));

    let header = String::from_utf8(header).unwrap();
    let cursor = header
        .lines()
        .find_map(|line| line.strip_prefix("#define THREAD_HINDSIGHT_CURSOR_OFFSET 0x"))
        .expect("thread.def has the cursor's offset");
    (
        String::from_utf8(text).unwrap(),
        u64::from_str_radix(cursor, 16).unwrap(),
    )
}

/// The function that says whether a method has trace points.
const ASKED: &str = "hindsight_is_left_out";

/// The places where the instructions of `pattern` begin.
fn places(lines: &[String], pattern: &[String]) -> Vec<usize> {
    let fits = |line: &String, expected: &String| line.starts_with(expected.as_str());
    (0..lines.len())
        .filter(|&at| {
            let rest = &lines[at..];
            rest.len() >= pattern.len() && rest.iter().zip(pattern).all(|(l, e)| fits(l, e))
        })
        .collect()
}

/// The instructions of each function, their whitespace and comments normalized. A call of [`ASKED`] is `call`; other
/// relocations stay lines of their own.
fn functions(text: &str) -> Vec<(&str, Vec<String>)> {
    let mut functions = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_suffix(">:").and_then(|l| l.split('<').nth(1)) {
            functions.push((name, Vec::new()));
        } else if let Some((_, instructions)) = functions.last_mut() {
            let line = line.split('@').next().unwrap_or("");
            let words: Vec<&str> = line.split_whitespace().collect();
            if line.contains(ASKED) {
                // The relocation of the instruction before.
                instructions.pop();
                instructions.push("call".to_owned());
            } else if !words.is_empty() {
                instructions.push(words.join(" "));
            }
        }
    }
    functions
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build --release 14, and cargo xtask lab build --isa arm64 and arm"]
fn every_entry_and_every_return_of_nterp_has_a_trace_point() {
    let lab = hindsight_lab::cache_dir().unwrap().join("lab");
    let sysroots = ISAS.iter().map(|isa| isa.sysroot);
    for needed in sysroots.chain(["android-14/hindsight/src/art/runtime"]) {
        let needed = lab.join(needed);
        assert!(needed.exists(), "{}: not there", needed.display());
    }
    for (isa, asks) in ISAS.iter().flat_map(|isa| [(isa, false), (isa, true)]) {
        let work = tempfile::tempdir().unwrap();
        if asks {
            // What tells the headers that this is a lab's build.
            let folder = work.path().join("hindsight-art-hooks/src");
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("lab.rs.h"), "").unwrap();
        }
        let (text, cursor) = disassemble(isa, &lab, work.path());
        let pattern = |before: &[&str], parts: &[&str], index: u64| -> Vec<String> {
            let offset = format!("{:#x}", cursor + index * isa.pointer_size);
            let before = before.iter().filter(|_| asks);
            let parts = before.chain(parts);
            parts.map(|part| part.replace('@', &offset)).collect()
        };
        let entry = pattern(isa.entry_asks, isa.entry, 4);
        let exit = pattern(isa.exit_asks, isa.exit, 3);
        let functions = functions(&text);
        let calls = functions.iter().flat_map(|(_, lines)| lines);
        let calls = calls.filter(|line| *line == "call").count();
        assert_eq!(calls != 0, asks, "{}: {calls} questions", isa.name);

        // Each entry of a method checks whether it is hot; so does one common place for backward branches.
        let count = |wanted: &dyn Fn(&str) -> bool| {
            let all = functions.iter().flat_map(|(_, lines)| lines);
            all.filter(|line| wanted(line)).count()
        };
        let hot = count(&|line| {
            line.starts_with("R_") && line.contains("nterp_hot_method")
                || line.contains(": R_") && line.contains("nterp_hot_method")
        });
        assert!(
            hot >= 2,
            "{}: {hot} looks whether a method is hot",
            isa.name
        );
        let entries = functions
            .iter()
            .map(|(_, lines)| places(lines, &entry).len());
        assert_eq!(entries.sum::<usize>(), hot - 1, "{}: entries", isa.name);

        // Only the four return instructions leave a method.
        for (name, lines) in functions
            .iter()
            .filter(|(name, _)| name.starts_with("nterp_op_"))
        {
            let returns = lines.iter().filter(|line| (isa.is_return)(line)).count();
            let is_return = name.starts_with("nterp_op_return");
            assert_eq!(returns, usize::from(is_return), "{}: {name}", isa.name);
            let exits = places(lines, &exit);
            assert_eq!(
                exits.len(),
                usize::from(is_return),
                "{}: trace points of {name}:\n{}",
                isa.name,
                lines.join("\n")
            );
            let last = lines.iter().position(|line| (isa.is_return)(line));
            assert!(exits.first().copied() <= last, "{}: {name}", isa.name);
        }
        let names = ["return", "return_void", "return_object", "return_wide"];
        for name in names.map(|name| format!("nterp_op_{name}")) {
            assert!(
                functions.iter().any(|(n, _)| *n == name),
                "{}: {name}",
                isa.name
            );
        }
    }
}
