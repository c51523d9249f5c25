// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask verify instructions`: the number of instructions that trace points execute. Compiled methods of the
//! boot image run under qemu-user, which logs every instruction, in a program that consists of the method,
//! the runtime's stubs and a thread's words; without trace points, with tracing off, and with tracing on.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::ops::Range;
use std::path::Path;
use std::process::Command;

use anyhow::{bail, ensure, Context as _, Result};
use hindsight_lab::{Framework, Isa, Lab, Release, Variant};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

use super::oatdump;
use super::sites::Words;
use hindsight_verify::boot_images::{self, Form};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The instruction set
    #[arg(long, default_value = "all", value_parser = ["x86_64", "arm64", "arm", "all"])]
    isa: String,
}

/// Static methods that call nothing with the arguments 100, 1 and 2: one with a suspend check, and a leaf.
const METHODS: [(Shape, &str); 2] = [
    (
        Shape::Checked,
        "void java.util.Arrays.rangeCheck(int, int, int)",
    ),
    (
        Shape::Leaf,
        "boolean java.lang.Character.isHighSurrogate(char)",
    ),
];
/// The `ArtMethod*` that the method is called with.
const METHOD_POINTER: u32 = 0x0123_4560;
const FIRST_STUB: &str = "art_quick_trace_entry";
const AFTER_STUBS: &str = "art_quick_trace_end";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// The entry shares the suspend check.
    Checked,
    Leaf,
}

/// Executed instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Executed {
    in_method: usize,
    in_stubs: usize,
}

/// The instructions that a call may execute beyond a call without trace points: entry and exit together, in the
/// method and in stubs.
fn expected(isa: Isa, shape: Shape, form: Form, on: bool) -> Executed {
    let (in_method, in_stubs) = match (isa, form, shape, on) {
        // A load and a branch at each; x86-64 has a test between them. The suspend check is there in any case.
        (Isa::X86_64, Form::Shared, Shape::Checked, false) => (3, 0),
        (_, Form::Shared, Shape::Checked, false) => (2, 0),
        // The register allocator keeps the returned value out of the exit's way: two moves.
        (Isa::X86_64, Form::Inline, Shape::Leaf, false) => (8, 0),
        (Isa::X86_64, _, _, false) => (6, 0),
        (_, _, _, false) => (4, 0),
        // The contract of the inline form.
        (Isa::X86_64, Form::Inline, Shape::Leaf, true) => (22, 0),
        // There is no value to save around rdtsc: two instructions less.
        (Isa::X86_64, Form::Inline, Shape::Checked, true) => (18, 0),
        (Isa::Arm64, Form::Inline, _, true) => (10, 0),
        (Isa::Arm, Form::Inline, Shape::Checked, true) => (11, 0),
        // A leaf's link register is not saved: its entry has the shared form.
        (Isa::Arm, Form::Inline, Shape::Leaf, true) => (10, 12),
        // The stubs compare the epoch; the exit finds its own entry before the cursor, and keeps the call.
        (Isa::X86_64, _, Shape::Checked, true) => (5, 35),
        (Isa::X86_64, _, Shape::Leaf, true) => (7, 30),
        (Isa::Arm64, _, Shape::Checked, true) => (5, 29),
        (Isa::Arm64, _, Shape::Leaf, true) => (6, 25),
        (Isa::Arm, _, Shape::Checked, true) => (6, 35),
        (Isa::Arm, _, Shape::Leaf, true) => (6, 30),
    };
    Executed {
        in_method,
        in_stubs,
    }
}

/// Counts and compares. Returns whether all counts are as expected.
pub(crate) fn run(options: &Options, checkout: &Path) -> Result<bool> {
    let native = Lab::open(Release::Android10, Isa::X86_64, Variant::Hindsight)?;
    let framework = Framework::build(&native, &|step| eprintln!("verify: building {step}"))?;
    let (mut counts, mut differences) = (0, 0);
    println!(
        "{:>7} {:>10} {:>7} {:>5} {:>10} {:>9}  expected",
        "isa", "method", "form", "", "in method", "in stubs"
    );
    for isa in Isa::ALL {
        if options.isa != "all" && options.isa != isa.name() {
            continue;
        }
        let lab = Lab::open(Release::Android10, isa, Variant::Hindsight)?;
        let libart = lab.root().join(isa.library_dir()).join("libart.so");
        let stubs = Stubs::read(&libart)?;
        let mut codes = Vec::new();
        for form in [Form::Shared, Form::Inline, Form::None] {
            let folder = checkout
                .join("target/verify/oat")
                .join(format!("{}-{form}", isa.name()));
            let image = boot_images::compile(&native, &framework, isa, form, &folder)?;
            codes.push((
                form,
                oatdump::read(native.command("oatdump"), &image.oat_files[0])?,
            ));
        }
        let words = codes[0]
            .1
            .trace_points
            .as_deref()
            .and_then(|value| Words::parse(value, isa));
        let (_, words) = words
            .context("the boot image's header does not give the offsets of the thread's words")?;
        for (shape, name) in METHODS {
            let mut executed = Vec::new();
            for (form, oat) in codes.iter().rev() {
                let method = oat
                    .methods
                    .iter()
                    .find(|method| method.name == name)
                    .with_context(|| format!("the boot image has no method {name}"))?;
                let code = &oat.text[method.code.clone()];
                for on in [false, true] {
                    if !on || *form != Form::None {
                        let count = execute(isa, code, &stubs, &words, on)
                            .with_context(|| format!("{name} for {} ({form})", isa.name()))?;
                        executed.push((*form, on, count));
                    }
                }
            }
            let (_, _, without) = executed[0];
            for (form, on, count) in executed.drain(1..) {
                let more = Executed {
                    in_method: count.in_method.saturating_sub(without.in_method),
                    in_stubs: count.in_stubs,
                };
                let expected = expected(isa, shape, form, on);
                counts += 1;
                let verdict = if more == expected {
                    "as expected".to_owned()
                } else {
                    differences += 1;
                    format!(
                        "{} and {}: DIFFERENT",
                        expected.in_method, expected.in_stubs
                    )
                };
                println!(
                    "{:>7} {:>10} {:>7} {:>5} {:>10} {:>9}  {verdict}",
                    isa.name(),
                    format!("{shape:?}").to_lowercase(),
                    form.name(),
                    if on { "on" } else { "off" },
                    more.in_method,
                    more.in_stubs
                );
            }
        }
    }
    println!("instructions: {counts} counts, {differences} differences");
    Ok(differences == 0)
}

/// The runtime's stubs: code that uses the thread only.
struct Stubs {
    code: Vec<u8>,
    leaf: usize,
    exit: usize,
}

impl Stubs {
    fn read(libart: &Path) -> Result<Self> {
        let file = fs::read(libart).with_context(|| format!("cannot read {}", libart.display()))?;
        let elf = object::File::parse(&*file)
            .with_context(|| format!("{} is no ELF file", libart.display()))?;
        let address = |name: &str| {
            elf.symbols()
                .find(|symbol| symbol.name() == Ok(name))
                // The lowest bit is set in Thumb state.
                .map(|symbol| symbol.address() & !1)
                .with_context(|| format!("{} has no symbol {name}", libart.display()))
        };
        let (start, end) = (address(FIRST_STUB)?, address(AFTER_STUBS)?);
        let bytes = elf
            .sections()
            .find_map(|section| {
                section
                    .data_range(start, end.checked_sub(start)?)
                    .ok()
                    .flatten()
            })
            .with_context(|| format!("{}: the stubs are in no section", libart.display()))?;
        let offset = |name| address(name).map(|address| address.wrapping_sub(start) as usize);
        Ok(Stubs {
            code: bytes.to_vec(),
            leaf: offset("art_quick_trace_entry_leaf")?,
            exit: offset("art_quick_trace_exit")?,
        })
    }
}

/// Runs a method once, and counts.
fn execute(isa: Isa, code: &[u8], stubs: &Stubs, words: &Words, on: bool) -> Result<Executed> {
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let path = |name: &str| folder.path().join(name);
    fs::write(path("method.bin"), code).context("cannot write the method")?;
    fs::write(path("stubs.bin"), &stubs.code).context("cannot write the stubs")?;
    fs::write(path("run.s"), source(isa, stubs, words, on)).context("cannot write the program")?;
    let (prefix, emulator) = match isa {
        Isa::X86_64 => ("", "qemu-x86_64"),
        Isa::Arm64 => ("aarch64-linux-gnu-", "qemu-aarch64"),
        Isa::Arm => ("arm-linux-gnueabihf-", "qemu-arm"),
    };
    tool(
        folder.path(),
        &format!("{prefix}as"),
        &["-o", "run.o", "run.s"],
    )?;
    tool(
        folder.path(),
        &format!("{prefix}ld"),
        &["-o", "run", "run.o"],
    )?;

    let program = fs::read(path("run")).context("cannot read the program")?;
    let elf = object::File::parse(&*program).context("the program is no ELF file")?;
    let range = |start: &str, end: &str| -> Result<Range<u64>> {
        let address = |name: &str| {
            elf.symbols()
                .find(|symbol| symbol.name() == Ok(name))
                .map(|symbol| symbol.address())
                .with_context(|| format!("the program has no symbol {name}"))
        };
        Ok(address(start)?..address(end)?)
    };
    let (method, stub) = (range("method", "method_end")?, range("stubs", "stubs_end")?);

    // Renamed in qemu 8.1.
    let help = Command::new(emulator).arg("--help").output();
    let help = help.with_context(|| format!("cannot run {emulator} (Debian: qemu-user)"))?;
    let one_by_one = match String::from_utf8_lossy(&help.stdout).contains("one-insn-per-tb") {
        true => "-one-insn-per-tb",
        false => "-singlestep",
    };
    let written = tool(
        folder.path(),
        "timeout",
        &[
            "60",
            emulator,
            one_by_one,
            "-d",
            "exec,nochain",
            "-D",
            "log",
            "./run",
        ],
    )?;
    check_ring(&written, on)?;

    let mut executed = Executed {
        in_method: 0,
        in_stubs: 0,
    };
    let log = fs::File::open(path("log")).context("qemu wrote no log")?;
    for line in BufReader::new(log).lines() {
        if let Some(address) = executed_address(&line.context("cannot read qemu's log")?) {
            executed.in_method += usize::from(method.contains(&address));
            executed.in_stubs += usize::from(stub.contains(&address));
        }
    }
    ensure!(
        executed.in_method > 0,
        "qemu logged no instruction of the method"
    );
    Ok(executed)
}

/// `Trace 0: 0x7f5b4c000100 [00000000/0000000000400078/00000000/ff000201] _start`
fn executed_address(line: &str) -> Option<u64> {
    let (_, state) = line.strip_prefix("Trace ")?.split_once('[')?;
    u64::from_str_radix(state.split('/').nth(1)?, 16).ok()
}

/// Checks the ring: an entry and an exit, or nothing.
fn check_ring(ring: &[u8], on: bool) -> Result<()> {
    ensure!(
        ring.len() == 24,
        "the program wrote {} bytes instead of its ring",
        ring.len()
    );
    let word = |index: usize| {
        ring.get(4 * index..)
            .and_then(|rest| rest.first_chunk())
            .map_or(0, |bytes| u32::from_le_bytes(*bytes))
    };
    let recorded = (word(0), word(2), word(4), word(5));
    let expected = if on { METHOD_POINTER } else { 0 };
    ensure!(
        recorded == (expected, 0, 0, 0),
        "the ring holds {ring:02x?}"
    );
    let has_time = word(1) != 0 && word(3) != 0;
    if on != has_time {
        bail!("the ring holds {ring:02x?}");
    }
    Ok(())
}

/// Runs a program in a folder and returns its output.
fn tool(folder: &Path, program: &str, arguments: &[&str]) -> Result<Vec<u8>> {
    let output = Command::new(program)
        .current_dir(folder)
        .args(arguments)
        .output()
        .with_context(|| {
            format!("cannot run {program} (Debian: binutils-aarch64-linux-gnu, binutils-arm-linux-gnueabihf)")
        })?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{program}: {}: {complaint}",
        output.status
    );
    Ok(output.stdout)
}

/// A program that calls the method and writes three slots of its ring.
fn source(isa: Isa, stubs: &Stubs, words: &Words, on: bool) -> String {
    let thumb = usize::from(isa == Isa::Arm);
    let stub = |offset: usize| format!("stubs+{}", offset + thumb);
    // (offset in the thread, value)
    let mut stores = vec![(words.entry, stub(0))];
    if on {
        stores.push((words.cursor, "ring".to_owned()));
        stores.push((words.poll, "1".to_owned()));
        stores.push((words.exit, stub(stubs.exit)));
        stores.push((words.leaf, stub(stubs.leaf)));
    }
    let store = |line: fn(u64, &str) -> String| -> String {
        stores
            .iter()
            .map(|(offset, value)| line(*offset, value))
            .collect()
    };
    // The epoch of a thread that has just recorded. (The handler of arm's counter says 0.)
    let epoch = words.cursor + 5 * 8 + 32;
    let (start, stores, call) = match isa {
        Isa::X86_64 => (
            format!(
                "mov $158, %eax\n mov $0x1001, %edi\n mov $thread, %rsi\n syscall\n\
                 rdtsc\n mov %edx, thread+{epoch}\n"
            ),
            store(|offset, value| format!("movq ${value}, thread+{offset}\n")),
            format!(
                "mov ${METHOD_POINTER}, %edi\n mov $100, %esi\n mov $1, %edx\n mov $2, %ecx\n call method\n\
                 mov $1, %eax\n mov $1, %edi\n mov $ring, %rsi\n mov $24, %edx\n syscall\n\
                 mov $60, %eax\n xor %edi, %edi\n syscall\n"
            ),
        ),
        Isa::Arm64 => (
            format!(
                "ldr x19, =thread\n mrs x1, cntvct_el0\n lsr x1, x1, #32\n\
                 ldr x2, =thread+{epoch}\n str w1, [x2]\n"
            ),
            store(|offset, value| {
                format!("ldr x1, ={value}\n ldr x2, =thread+{offset}\n str x1, [x2]\n")
            }),
            format!(
                "ldr x0, ={METHOD_POINTER}\n mov x1, #100\n mov x2, #1\n mov x3, #2\n bl method\n\
                 mov x0, #1\n ldr x1, =ring\n mov x2, #24\n mov x8, #64\n svc #0\n\
                 mov x0, #0\n mov x8, #93\n svc #0\n"
            ),
        ),
        // qemu raises SIGILL at a read of the counter. The handler sets both registers of the mrrc from a
        // count, and continues behind it.
        Isa::Arm => (
            "mov r0, #4\n ldr r1, =action\n mov r2, #0\n mov r3, #8\n mov r7, #174\n svc #0\n\
             ldr r9, =thread\n"
                .to_owned(),
            store(|offset, value| {
                format!("ldr r1, ={value}\n ldr r2, =thread+{offset}\n str r1, [r2]\n")
            }),
            format!(
                "ldr r0, ={METHOD_POINTER}\n mov r1, #100\n mov r2, #1\n mov r3, #2\n\
                 ldr ip, =method+1\n blx ip\n\
                 mov r0, #1\n ldr r1, =ring\n mov r2, #24\n mov r7, #4\n svc #0\n\
                 mov r0, #0\n mov r7, #1\n svc #0\n\
                 handler:\n ldr r0, [r2, #92]\n ldrh r1, [r0]\n ldrh r3, [r0, #2]\n\
                 add r0, r0, #4\n str r0, [r2, #92]\n add r2, r2, #32\n\
                 and r1, r1, #15\n mov r0, #0\n str r0, [r2, r1, lsl #2]\n\
                 lsr r3, r3, #12\n mov r0, #123\n str r0, [r2, r3, lsl #2]\n bx lr\n\
                 restorer:\n mov r7, #173\n svc #0\n"
            ),
        ),
    };
    let syntax = match isa {
        Isa::Arm => ".syntax unified\n.arch armv7ve\n.arm\n",
        _ => "",
    };
    format!(
        "{syntax}.text\n.globl _start\n_start:\n{start}{stores}{call}{pool}\
         .balign 64\nmethod:\n.incbin \"method.bin\"\nmethod_end:\n\
         .balign 64\nstubs:\n.incbin \"stubs.bin\"\nstubs_end:\n\
         .data\n.balign 8\naction: .long {action}\n\
         .bss\n.balign 64\nthread: .skip 8192\nring: .skip 4096\n",
        // For the constants of ldr =.
        pool = match isa {
            Isa::X86_64 => "",
            _ => ".ltorg\n",
        },
        // Handler, SA_SIGINFO | SA_RESTORER, restorer, mask.
        action = match isa {
            Isa::Arm => "handler, 0x04000004, restorer, 0, 0",
            _ => "0",
        }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_from_the_log() {
        let line = "Trace 0: 0x7f5b4c000100 [00000000/0000000000400078/00000000/ff000201] _start";
        assert_eq!(executed_address(line), Some(0x40_0078));
        assert_eq!(
            executed_address("Linking TBs 0x7f5b [0040/0078] index 0"),
            None
        );
    }

    #[test]
    fn a_ring_must_hold_the_call_or_nothing() {
        let ring = |words: [u32; 6]| {
            words
                .iter()
                .flat_map(|w| w.to_le_bytes())
                .collect::<Vec<_>>()
        };
        assert!(check_ring(&ring([METHOD_POINTER, 7, 0, 9, 0, 0]), true).is_ok());
        assert!(check_ring(&ring([0; 6]), false).is_ok());
        assert!(check_ring(&ring([0; 6]), true).is_err());
        assert!(check_ring(&ring([METHOD_POINTER, 7, 0, 0, 0, 0]), true).is_err());
        assert!(check_ring(&ring([METHOD_POINTER, 7, 0, 9, 0, 0]), false).is_err());
        assert!(check_ring(&ring([METHOD_POINTER, 7, 5, 9, 0, 0]), true).is_err());
        assert!(check_ring(&ring([METHOD_POINTER, 7, 0, 9, 1, 1]), true).is_err());
        assert!(check_ring(&[], false).is_err());
    }
}
