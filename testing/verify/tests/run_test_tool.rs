// SPDX-License-Identifier: Apache-2.0
//! The program is also the client of the tool server: the builds of run-tests start it again.

use std::process::Command;

#[test]
fn the_builds_of_run_tests_can_start_it_for_a_tool() {
    let program = env!("CARGO_BIN_EXE_hindsight-verify");
    let without = |arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).env_remove("HINDSIGHT_TOOL_SOCKET");
        let output = command.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(
        without(&["run-test-tool"]),
        "error: usage: run-test-tool javac|d8|smali|jasmin ARGUMENTS…\n"
    );
    let no_server = without(&["run-test-tool", "javac", "--version"]);
    assert!(
        no_server.contains("HINDSIGHT_TOOL_SOCKET isn't set"),
        "{no_server}"
    );
}
