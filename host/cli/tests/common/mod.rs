// SPDX-License-Identifier: Apache-2.0
//! A program adb that answers as a device with hindsightd does.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use assert_cmd::cargo::cargo_bin;
use assert_cmd::Command;
use predicates::prelude::*;
use tempfile::TempDir;

/// The device's answers, by the last word of adb's arguments; its log of commands is in `log`.
const ADB: &str = r#"#!/bin/sh
folder=$(dirname "$0")
for line; do :; done
echo "$*" >> "$folder/log"
case "$*" in
  *force-stop*) touch "$folder/stopped" ;;
  *monkey*) touch "$folder/started" ;;
esac
# What a device's Perfetto does, and the shell with it; its files are in `traces`.
perfetto() {
  if test -e "$folder/no-traced"; then echo 'Could not connect to the traced socket' >&2; return 1; fi
  case "$*" in *--background-wait*)
    if test -e "$folder/older"; then echo 'perfetto: unrecognized option' >&2; return 1; fi ;;
  esac
  cat > "$folder/config"
  for out; do :; done
  echo "$out" > "$folder/out"
  echo 4242
}
kill() {
  case "$1 $2" in
    '-TERM 4242') cp "$folder/device.pftrace" "$(cat "$folder/out")"; touch "$folder/ended" ;;
    '-0 4242') ! test -e "$folder/ended" ;;
  esac
}
case "$line" in
  *perfetto-traces*|*'kill -TERM'*) eval "$(echo "$line" | sed "s|/data/misc/perfetto-traces|$folder/traces|g")"; exit ;;
  *"'status'"*)
    # The old process is still there when it is asked for the first time after it was killed.
    if test -e "$folder/stopped"; then
      process='{"name":"com.example.notes:x","pid":7,"connection":"connected"}'; recording=
      if test -e "$folder/gone"; then process='{"name":"com.example.notes2","pid":8,"connection":"connected"}'; fi
      if test -e "$folder/recording"; then recording='{"package":"com.example.notes","left_ns":1}'; fi
      printf 'ok\n{"engine":{"processes":[%s],"recordings":[%s]}}\n' "$process" "$recording"; touch "$folder/gone"; exit
    fi
    printf 'ok\n%s\n' '{"service":"0.1","up_s":9,"store":{"reports":2,"bytes":8},"engine":{"policy_revision":4,"enabled":true,"processes":[{"name":"com.example.notes","pid":7,"uid":10123,"connection":"connected","is_foreground":true,"rings_held":2,"ring_bytes":8388608,"other_bytes":2097152,"consent":"full","report":0}],"refused_processes":1,"refusals":["com.example.maps (pid 8): 128 processes are there already (processes in the policy)"],"recordings":[{"package":"com.example.notes","left_ns":4000000000}],"memory":{"budget_bytes":1048576,"demand_bytes":524288,"rings":2,"rings_held":2},"reports":{"kept":2},"limits":{"reports":2,"reports_limit":20,"uploads":0,"uploads_limit":3,"closed_for_ns":8500000000}}}' ;;
  *"'reports'"*)
    if test -e "$folder/list"; then echo ok; cat "$folder/list"; exit; fi
    printf 'ok\n%s\n%s\n' '{"report":3,"process":"com.example.notes","pid":7,"bytes":4,"realtime_s":1795000000,"severity":"fatal","detector":"killed","reason":"the process was killed"}' '{"report":4,"process":"a/b","pid":9,"bytes":5,"realtime_s":1795000001,"severity":"slow","detector":"x","reason":"y"}' ;;
  *"'get' '3'"*)
    if test -e "$folder/body"; then printf 'ok\n{"report":3,"bytes":%s}\n' "$(wc -c < "$folder/body")"; cat "$folder/body"; exit; fi
    printf 'ok\n%s\nbody' '{"report":3,"bytes":4}' ;;
  *"'get' '4'"*) printf 'ok\n%s\nbod' '{"report":4,"bytes":5}' ;;
  *"'context' '3'"*)
    if test -e "$folder/no-context"; then echo ok; exit; fi
    if test -e "$folder/old"; then echo 'error there is no command context'; exit; fi
    if test -e "$folder/offline"; then echo 'adb: device offline' >&2; exit 1; fi
    printf 'ok\nversion = 1\n[device]\nmodel = "Phone 3"\n' ;;
  *"'policy' 'show'"*) printf 'ok\nversion = 1\n' ;;
  *"'policy' '-'"*|*"'policy' 'check' '-'"*) printf 'error the policy is refused: line 2, column 11, enabled: invalid type: string "its", expected a boolean\n' ;;
  *"'switch' 'off'"*) printf 'ok\n' ;;
  *"'consent' 'show'"*) printf 'ok\n{"user_type":"internal","region":"","choices":{"device":null,"users":{},"are_lost":false},"levels":{"0":"full"}}\n' ;;
  *"'dump'"*) printf 'ok\nhindsightd 0.1.0, running for 9 s\npolicy: revision 4, recording is on\n' ;;
  *"'record' 'com.example.notes' '1'"*)
    printf 'ok\n'
    # A process that is there when the recording begins is in it, with what it did before it was killed.
    if test -e "$folder/stopped" && ! test -e "$folder/gone"; then echo '{"report":4,"process":"com.example.notes","pid":6,"problem":null}'; fi
    touch "$folder/recording"
    for n in $(seq 1200); do test -e "$folder/started" && break; sleep 0.1; done
    echo '{"report":3,"process":"com.example.notes","pid":7,"problem":null}'
    echo '{"report":null,"process":"com.example.notes:x","pid":9,"problem":"it got no ring of calls: raise budget-mib or call-rings in the policy, or close other traced apps"}' ;;
  *"'record' 'com.example.before' '5'"*) printf 'ok\nreport 3 of com.example.before (pid 7): written\n' ;;
  *"'report' 'com.example.notes'"*) printf 'ok\n%s\n' '{"report":3,"process":"com.example.notes","pid":7,"problem":null}' ;;
  *"'record' 'com.example.bank' '5'"*) printf 'error "com.example.bank" is not recorded: the policy is off for it (enabled), or there is no consent: '"'consent show'"' tells\n' ;;
  *"'record' 'com.example.old' '5'"*) printf '/system/bin/sh: hindsightd: not found\n' ;;
  *"'remove' '3'"*) printf 'adb: no devices/emulators found\n' >&2; exit 1 ;;
esac
"#;

pub(crate) struct Lab(TempDir);

impl Lab {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let adb = folder.path().join("adb");
        fs::write(&adb, ADB).unwrap();
        fs::set_permissions(&adb, fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(folder.path().join("traces")).unwrap();
        Lab(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn run(&self, words: &[&str]) -> assert_cmd::assert::Assert {
        let path = format!(
            "{}:{}",
            self.path().display(),
            std::env::var("PATH").unwrap()
        );
        let mut command = Command::new(cargo_bin("hindsight"));
        command
            .args(words)
            .current_dir(self.path())
            .env("PATH", path);
        command.env_remove("ANDROID_SERIAL").assert()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path().join("log")).unwrap_or_default()
    }
}

pub(crate) fn has(text: &str) -> predicates::str::ContainsPredicate {
    predicate::str::contains(text)
}
