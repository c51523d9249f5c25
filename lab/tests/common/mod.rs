// SPDX-License-Identifier: Apache-2.0
//! A traced program in the lab, which answers commands while it runs.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use hindsight_decoder::Trace;
use hindsight_lab::{Isa, JavaLibrary, Lab, Release, Variant};

/// A folder of the tests' own.
pub(crate) fn tests_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// A program of the workspace, which is two folders above the test's own.
pub(crate) fn program(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let program = own.parent().unwrap().parent().unwrap().join(name);
    assert!(
        program.is_file(),
        "{} is not there: cargo build -p hindsight-service -p hindsight-cli",
        program.display()
    );
    program
}

/// The lab for x86-64, or for the instruction set in `HINDSIGHT_TEST_ISA`; some tests only work on x86-64.
pub(crate) fn lab() -> Lab {
    let isa = std::env::var("HINDSIGHT_TEST_ISA").map_or(Isa::X86_64, |isa| isa.parse().unwrap());
    Lab::open(Release::Android10, isa, Variant::Hindsight).unwrap()
}

/// The jar of `tests/java/NAME`, compiled once a process.
pub(crate) fn jar(name: &str) -> PathBuf {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| tempfile::tempdir().unwrap()).path();
    let jar = folder.join(format!("{name}.jar"));
    static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one_after_the_other = LOCK.lock().unwrap_or_else(|e| e.into_inner());
    if !jar.exists() {
        let sources = fs::read_dir(tests_folder().join("java").join(name)).unwrap();
        let library = JavaLibrary {
            sources: sources.map(|entry| entry.unwrap().path()).collect(),
            ..JavaLibrary::default()
        };
        lab().compile_java(&library, &jar).unwrap();
    }
    jar
}

/// Compiles `tests/native/NAME.c` to `libNAME.so` in the folder.
pub(crate) fn native_library(folder: &Path, name: &str) -> PathBuf {
    let library = folder.join(format!("lib{name}.so"));
    let status = Command::new("clang-14")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"])
        .args(["-isystem", "/usr/include/android/nativehelper", "-o"])
        .arg(&library)
        .arg(tests_folder().join("native").join(format!("{name}.c")))
        .status()
        .unwrap();
    assert!(status.success());
    library
}

/// A running program that answers each line of its input with a line of its output.
pub(crate) struct Program {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    folder: Option<tempfile::TempDir>,
}

impl Program {
    /// Starts `tests/java/NAME`'s main class with these arguments (separated by blanks) and this configuration of
    /// Hindsight, to which it adds `dir`, `socket` and `check-balance`. `change` may add to the command before its class
    /// path; its second argument is the program's folder.
    pub(crate) fn start(
        name: &str,
        main: &str,
        arguments: &str,
        configuration: &str,
        change: impl FnOnce(&mut Command, &Path),
    ) -> Program {
        Program::start_jar(&jar(name), main, arguments, configuration, change)
    }

    /// As [`start`](Self::start), with the program in this jar.
    pub(crate) fn start_jar(
        jar: &Path,
        main: &str,
        arguments: &str,
        configuration: &str,
        change: impl FnOnce(&mut Command, &Path),
    ) -> Program {
        let folder = tempfile::tempdir().unwrap();
        let mut command = lab().dalvikvm_command();
        change(&mut command, folder.path());
        command.arg("-cp").arg(jar).arg(main);
        command.args(arguments.split_whitespace());
        let path = folder.path().display();
        command.env(
            "HINDSIGHT",
            // The calls of tests are short.
            format!(
                "rewind=off,{configuration},dir={path},socket={path}/socket,check-balance={path}"
            ),
        );
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Program {
            input: process.stdin.take(),
            output: BufReader::new(process.stdout.take().unwrap()),
            process,
            folder: Some(folder),
        }
    }

    /// The folder of its files.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.as_ref().unwrap().path()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The next line of the output.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "the program ended: {line:?}");
        line.trim_end().to_owned()
    }

    /// Sends a line.
    pub(crate) fn send(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Sends a line, and returns the answer.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.line()
    }

    /// Sends a line, and returns the answer as a number.
    pub(crate) fn number(&mut self, line: &str) -> u64 {
        let answer = self.ask(line);
        answer
            .parse()
            .unwrap_or_else(|_| panic!("{line}: {answer:?}"))
    }

    pub(crate) fn socket(&self) -> Socket {
        let stream = UnixStream::connect(self.folder().join("socket")).unwrap();
        Socket(BufReader::new(stream))
    }

    /// Ends the input, and waits for the program's end, which must be a success with a balanced trace. Returns
    /// the snapshot of the end, if one is configured.
    pub(crate) fn finish(mut self) -> tempfile::TempDir {
        drop(self.input.take());
        let mut rest = String::new();
        while self.output.read_line(&mut rest).unwrap() != 0 {}
        let status = self.process.wait().unwrap();
        assert!(status.success(), "{status}: {rest}");
        let report = self.folder().join(format!("{}.balance", self.pid()));
        let report = fs::read_to_string(&report).unwrap();
        assert!(report.contains(" unbalanced 0"), "{report}");
        self.folder.take().unwrap()
    }
}

impl Program {
    /// Ends the program at once.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Still running only after a failure.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A connection to the control socket.
pub(crate) struct Socket(BufReader<UnixStream>);

impl Socket {
    /// Sends a command; the answer, with its `ok` or `error`.
    pub(crate) fn ask(&mut self, command: &str) -> String {
        writeln!(self.0.get_mut(), "{command}").unwrap();
        let mut answer = String::new();
        self.0.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }

    /// Sends a command that must succeed; returns the answer without its `ok`.
    pub(crate) fn ok(&mut self, command: &str) -> String {
        let answer = self.ask(command);
        let rest = answer
            .strip_prefix("ok")
            .unwrap_or_else(|| panic!("{command}: {answer}"));
        rest.trim_start().to_owned()
    }

    pub(crate) fn status(&mut self) -> serde_json::Value {
        serde_json::from_str(&self.ok("status")).unwrap()
    }
}

/// Waits until the condition holds, for at most five minutes.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(300);
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not within five minutes");
        std::thread::yield_now();
    }
}

/// The `.hindsight` files in a folder, in the order in which they were written.
pub(crate) fn traces(folder: &Path) -> Vec<PathBuf> {
    let number = |path: &PathBuf| -> u32 {
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        stem.rsplit('-').next().unwrap().parse().unwrap()
    };
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|x| x == "hindsight"))
        .collect();
    files.sort_by_key(number);
    files
}

pub(crate) fn open(path: &Path) -> Trace {
    Trace::open(path).unwrap()
}
