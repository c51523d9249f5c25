// SPDX-License-Identifier: Apache-2.0
//! The SELinux policy of the programs beside hindsightd, the Perfetto data source and the uploader, with the small base policy of
//! the other policy tests: what they need is allowed, all else is not, and no later rule can allow it.

mod common;

use common::expected::{shipped, Expected};
use common::policy::{can_check, check};

#[test]
fn the_data_source_talks_to_traced_and_gives_commands() {
    if !can_check("the_data_source_talks_to_traced_and_gives_commands") {
        return;
    }
    let own = "hindsight_perfetto";
    for build in shipped() {
        let mut expected = Expected::default();
        let mut needed = vec![
            (own, "traced_producer_socket", "sock_file", "write"),
            (own, "traced", "unix_stream_socket", "connectto"),
            (own, "hindsightd_commands_socket", "sock_file", "write"),
            (own, "hindsightd", "unix_stream_socket", "connectto"),
            (own, "hindsightd", "fd", "use"),
            (own, "hindsight_data_file", "file", "getattr"),
            (own, "hindsight_data_file", "file", "read"),
            ("traced", own, "fd", "use"),
            ("init", own, "process", "transition"),
            (own, "hindsight_perfetto_exec", "file", "entrypoint"),
        ];
        for domain in [own, "traced"] {
            for permission in ["getattr", "map", "read", "write"] {
                needed.push((domain, "hindsight_perfetto_tmpfs", "file", permission));
            }
        }
        expected.given(&needed, true);
        let refused = [
            (own, "hindsight_data_file", "file", "open"),
            (own, "hindsight_data_file", "file", "write"),
            (own, "hindsight_data_file", "dir", "search"),
            (own, "hindsightd_uploads_socket", "sock_file", "write"),
            (own, "hindsightd_socket", "sock_file", "write"),
            (own, "app_data_file", "file", "read"),
            (own, own, "tcp_socket", "create"),
            (own, own, "capability", "kill"),
            (own, "hindsightd", "process", "signal"),
            (own, "hindsight_service_prop", "property_service", "set"),
            ("traced", "hindsight_data_file", "file", "read"),
            ("hindsightd", "hindsight_perfetto_tmpfs", "file", "read"),
            ("untrusted_app", own, "process", "transition"),
        ];
        expected.given(&refused, false);
        expected.check(build);
    }
}

#[test]
fn the_uploader_has_the_network_and_what_it_is_handed() {
    if !can_check("the_uploader_has_the_network_and_what_it_is_handed") {
        return;
    }
    let own = "hindsight_upload";
    for build in shipped() {
        let mut expected = Expected::default();
        let needed = [
            (own, "hindsightd_uploads_socket", "sock_file", "write"),
            (own, "hindsightd", "unix_stream_socket", "connectto"),
            (own, "hindsightd", "fd", "use"),
            // A trace is open for reading, a text for reading and writing.
            (own, "hindsight_data_file", "file", "getattr"),
            (own, "hindsight_data_file", "file", "read"),
            (own, "hindsightd_tmpfs", "file", "getattr"),
            (own, "hindsightd_tmpfs", "file", "read"),
            (own, "hindsightd_tmpfs", "file", "write"),
            (own, own, "tcp_socket", "create"),
            (own, own, "tcp_socket", "connect"),
            (own, "dnsproxyd_socket", "sock_file", "write"),
            ("init", own, "process", "transition"),
            (own, "hindsight_upload_exec", "file", "entrypoint"),
        ];
        expected.given(&needed, true);
        let refused = [
            (own, "hindsight_data_file", "file", "open"),
            (own, "hindsight_data_file", "file", "write"),
            (own, "hindsight_data_file", "dir", "search"),
            (own, "hindsightd_tmpfs", "file", "open"),
            (own, "hindsightd_commands_socket", "sock_file", "write"),
            (own, "hindsightd_socket", "sock_file", "write"),
            (own, "app_data_file", "file", "read"),
            (own, "appdomain_tmpfs", "file", "read"),
            (own, own, "capability", "net_admin"),
            (own, "hindsightd", "process", "signal"),
            (own, "hindsight_prop", "property_service", "set"),
            ("hindsightd", own, "fd", "use"),
            ("untrusted_app", own, "process", "transition"),
        ];
        expected.given(&refused, false);
        // Nobody else is handed anything.
        for other in ["system_app", "shell", "untrusted_app", "hindsight_perfetto"] {
            let asked = [(other, "hindsightd_uploads_socket", "sock_file", "write")];
            expected.given(&asked, false);
        }
        expected.check(build);
    }
}

/// Rules that a later policy could add: each violates a neverallow rule.
const FORBIDDEN: [&str; 14] = [
    "allow hindsight_perfetto self:tcp_socket create;",
    "allow hindsight_perfetto self:capability kill;",
    "allow hindsight_perfetto app_data_file:file read;",
    "allow hindsight_perfetto untrusted_app:process ptrace;",
    "allow hindsight_perfetto hindsight_data_file:file open;",
    "allow hindsight_perfetto self:process execmem;",
    "allow shell hindsight_perfetto:process transition;",
    "allow hindsight_upload hindsightd_commands_socket:sock_file write;",
    "allow hindsight_upload hindsight_data_file:dir search;",
    "allow hindsight_upload app_data_file:file read;",
    "allow hindsight_upload self:capability net_admin;",
    "allow hindsight_upload hindsightd:process sigkill;",
    "allow system_app hindsightd_uploads_socket:sock_file write;",
    "allow shell hindsight_upload:process transition;",
];

#[test]
fn later_rules_cannot_open_them() {
    if !can_check("later_rules_cannot_open_them") {
        return;
    }
    for build in shipped() {
        for rule in FORBIDDEN {
            let said = check(build, rule).expect_err(rule);
            assert!(
                said.contains("neverallow failures occurred"),
                "{rule}: {said}"
            );
        }
    }
}
