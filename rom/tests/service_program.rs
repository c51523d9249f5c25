// SPDX-License-Identifier: Apache-2.0
//! The programs around the services' libraries (hindsightd.cc and others), compiled for this machine with stand-ins for the
//! libraries, for Android's two functions that they call, and for init, which makes the sockets.

mod common;

use common::{checkout, has_tools};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SOCKETS_H: &str = r#"
#pragma once
#define ANDROID_SOCKET_DIR "."
extern "C" int android_get_control_socket(const char* name);
"#;

const LOG_H: &str = r#"
#pragma once
enum { ANDROID_LOG_INFO = 4, ANDROID_LOG_ERROR = 6 };
extern "C" int __android_log_write(int priority, const char* tag, const char* text);
"#;

/// `SOCKETS` names the sockets that init has made. The library's function says what it was given, on stderr.
const STAND_INS: &str = r#"
#include <android/log.h>
#include <cutils/sockets.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <initializer_list>

extern "C" int android_get_control_socket(const char* name) {
  const char* made = getenv("SOCKETS");
  char* copy = strdup(made == nullptr ? "" : made);
  bool is_made = false;
  for (char* one = strtok(copy, " "); one != nullptr; one = strtok(nullptr, " ")) {
    is_made = is_made || strcmp(one, name) == 0;
  }
  free(copy);
  if (!is_made) return -1;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  snprintf(address.sun_path, sizeof(address.sun_path), "./%s", name);
  int descriptor = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  if (bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) abort();
  if (chmod(address.sun_path, 0600) != 0) abort();
  return descriptor;
}

extern "C" int __android_log_write(int priority, const char* tag, const char* text) {
  FILE* log = fopen("log", "a");
  fprintf(log, "%d %s %s\n", priority, tag, text);
  return fclose(log);
}

static int Said(int argc, const char* const* argv) {
  if (argv[argc] != nullptr) return 99;
  for (int i = 0; i < argc; i++) {
    bool is_socket = i > 0 && strstr(argv[i - 1], "-fd") != nullptr;
    int listens = 0;
    socklen_t size = sizeof(listens);
    if (is_socket) getsockopt(atoi(argv[i]), SOL_SOCKET, SO_ACCEPTCONN, &listens, &size);
    fprintf(stderr, "argument %s\n", is_socket ? (listens ? "listens" : "is deaf") : argv[i]);
  }
  for (const char* name : {"hindsightd", "hindsightd_commands", "hindsightd_uploads"}) {
    struct stat file;
    if (stat(name, &file) == 0) printf("%s has mode %o\n", name, file.st_mode & 0777);
  }
  return 7;
}

extern "C" int hindsightd_main(int argc, const char* const* argv) { return Said(argc, argv); }
extern "C" int hindsight_perfetto_main(int argc, const char* const* argv) { return Said(argc, argv); }
extern "C" int hindsight_upload_main(int argc, const char* const* argv) { return Said(argc, argv); }
"#;

fn write(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}

/// Compiles a program as Soong does, warnings included.
fn compile(dir: &Path, name: &str) -> PathBuf {
    write(dir, "include/cutils/sockets.h", SOCKETS_H);
    write(dir, "include/android/log.h", LOG_H);
    let stand_ins = write(dir, "stand_ins.cc", STAND_INS);
    let program = dir.join("program");
    let compiler = Command::new("c++")
        .args([
            "-std=c++17",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pthread",
            "-I",
        ])
        .arg(dir.join("include"))
        .arg(checkout().join("aosp/common/service").join(name))
        .arg(stand_ins)
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    assert!(
        compiler.status.success(),
        "{}",
        String::from_utf8_lossy(&compiler.stderr)
    );
    program
}

/// Runs it in a new folder, with the sockets that init has made. Returns the log, too.
fn run(program: &Path, sockets: &str) -> (Output, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(program)
        .current_dir(folder.path())
        .env("SOCKETS", sockets)
        .args(["--store", "/data/misc/hindsight"])
        .output()
        .unwrap();
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
    (output, log.lines().map(str::to_owned).collect())
}

#[test]
fn it_hands_over_the_sockets_of_init_and_copies_the_output_to_the_log() {
    let test = "it_hands_over_the_sockets_of_init_and_copies_the_output_to_the_log";
    if !has_tools(test, &[("c++", "g++")]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = compile(dir.path(), "hindsightd.cc");

    let (output, log) = run(
        &program,
        "hindsightd hindsightd_commands hindsightd_uploads",
    );
    assert_eq!(output.status.code(), Some(7), "{log:?}");
    // All of it is in the log, nothing is lost at the end.
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
    let name = format!("argument {}", program.display());
    let expected = [
        &*name,
        "argument --store",
        "argument /data/misc/hindsight",
        "argument --socket-fd",
        "argument listens",
        "argument --commands-fd",
        "argument listens",
        "argument --uploads-fd",
        "argument listens",
        // Nothing leaves a device without a permission, and to this user only.
        "argument --uploads-when",
        "argument allowed",
        "argument --uploader-uid",
        "argument 1042",
        // Open to all once it listens; the others keep the mode that init gave it.
        "hindsightd has mode 666",
        "hindsightd_commands has mode 600",
        "hindsightd_uploads has mode 600",
    ]
    .map(|line| format!("4 hindsightd {line}"));
    assert_eq!(log, expected);

    // A client's output is not for the log, and it takes no sockets.
    let client = Command::new(&program)
        .current_dir(dir.path())
        .env("SOCKETS", "hindsightd")
        .args(["--command", "status"])
        .output()
        .unwrap();
    assert_eq!(client.status.code(), Some(7));
    let said = String::from_utf8(client.stderr).unwrap();
    assert!(
        said.ends_with("argument --command\nargument status\n"),
        "{said}"
    );
    assert!(!dir.path().join("log").exists());

    // Without init's sockets, such as in a shell, the arguments are left as they are.
    let (output, log) = run(&program, "");
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(log, expected[..3]);
}

#[test]
fn the_other_programs_hand_over_their_arguments_and_log_under_their_names() {
    let test = "the_other_programs_hand_over_their_arguments_and_log_under_their_names";
    if !has_tools(test, &[("c++", "g++")]) {
        return;
    }
    for (file, tag) in [
        ("hindsight_perfetto.cc", "hindsight-perfetto"),
        ("hindsight_upload.cc", "hindsight-upload"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let program = compile(dir.path(), file);
        let (output, log) = run(&program, "hindsightd");
        assert_eq!(output.status.code(), Some(7), "{log:?}");
        assert!(output.stdout.is_empty() && output.stderr.is_empty());
        let name = format!("argument {}", program.display());
        let expected = [&*name, "argument --store", "argument /data/misc/hindsight"];
        assert_eq!(log, expected.map(|line| format!("4 {tag} {line}")));
    }
}
