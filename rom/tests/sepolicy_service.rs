// SPDX-License-Identifier: Apache-2.0
//! The SELinux policy of hindsightd, with the small base policy of the other policy tests: what the service and its
//! clients need is allowed, all else is not, and no later rule can allow it. Decisions are computed as in the kernel, with the
//! categories of apps and users.

mod common;

use common::checkout;
use common::expected::{shipped, Expected};
use common::policy::{can_check, check, check_rules, rules, Build, RELEASES};

/// An app of the first user, and one in a work profile: categories of package and user.
const APPS: [&str; 2] = ["untrusted_app:s0:c1,c2", "untrusted_app:s0:c1,c3"];

/// Processes that may hand their memory to the service, with the label of their temporary files.
fn clients() -> Vec<(&'static str, &'static str)> {
    let apps = APPS.map(|app| (app, "appdomain_tmpfs"));
    let others = [
        ("platform_app", "appdomain_tmpfs"),
        ("system_app", "appdomain_tmpfs"),
        ("shell", "appdomain_tmpfs"),
        ("system_server", "system_server_tmpfs"),
    ];
    [&apps[..], &others[..]].concat()
}

/// Processes that may not connect.
fn strangers(release: &str) -> Vec<&'static str> {
    let mut all = vec![
        "isolated_app:s0:c1,c2",
        "vendor_hal",
        "vendor_init",
        "dumpstate",
        "traced",
        "zygote",
        "hindsight_perfetto",
        "hindsight_upload",
    ];
    if release == "android-14" {
        all.extend(["isolated_compute_app:s0:c1", "sdk_sandbox:s0:c1,c2"]);
    }
    all
}

/// The label of an object with the categories of a process.
fn with_level(label: &str, process: &str) -> String {
    match process.split_once(':') {
        Some((_, level)) => format!("{label}:{level}"),
        None => label.to_owned(),
    }
}

#[test]
fn clients_connect_and_the_service_reads_their_memory() {
    if !can_check("clients_connect_and_the_service_reads_their_memory") {
        return;
    }
    for build in shipped() {
        let mut expected = Expected::default();
        for (client, tmpfs) in clients() {
            let memory = with_level(tmpfs, client);
            let mut needed = vec![
                (client, "hindsightd", "unix_stream_socket", "connectto"),
                ("hindsightd", client, "fd", "use"),
            ];
            for permission in ["write", "getattr"] {
                needed.push((client, "hindsightd_socket", "sock_file", permission));
            }
            for permission in ["getattr", "read", "write"] {
                needed.push(("hindsightd", &memory, "file", permission));
            }
            expected.given(&needed, true);
            let refused = [
                (client, "hindsightd", "process", "ptrace"),
                (client, "hindsight_data_file", "file", "open"),
                (client, "hindsight_data_file", "dir", "search"),
                ("hindsightd", &memory, "file", "open"),
                // The service reads it, and never maps it: nobody can make it fault.
                ("hindsightd", &memory, "file", "map"),
                ("hindsightd", client, "file", "read"),
                ("hindsightd", client, "process", "ptrace"),
            ];
            expected.given(&refused, false);
        }
        for stranger in strangers(build.release) {
            let refused = [
                (stranger, "hindsightd_socket", "sock_file", "write"),
                ("hindsightd", stranger, "fd", "use"),
            ];
            expected.given(&refused, false);
            // The other two programs connect to other sockets.
            let connects = [(stranger, "hindsightd", "unix_stream_socket", "connectto")];
            expected.given(&connects, stranger.starts_with("hindsight_"));
        }
        expected.check(build);
    }
}

#[test]
fn the_service_can_do_its_work_and_nothing_else() {
    if !can_check("the_service_can_do_its_work_and_nothing_else") {
        return;
    }
    for build in shipped() {
        let mut expected = Expected::default();
        let mut needed = vec![
            ("init", "hindsightd", "process", "transition"),
            ("init", "hindsightd", "unix_stream_socket", "bind"),
            ("init", "hindsight_data_file", "dir", "create"),
            ("init", "hindsightd_socket", "sock_file", "create"),
            ("hindsightd", "hindsightd_exec", "file", "entrypoint"),
            ("hindsightd", "hindsightd", "unix_stream_socket", "listen"),
            ("hindsightd", "hindsightd", "unix_stream_socket", "accept"),
            ("hindsightd", "hindsightd_socket", "sock_file", "setattr"),
            ("hindsightd", "system_data_file", "dir", "search"),
            ("hindsightd", "proc_pressure_mem", "file", "read"),
            ("hindsightd", "proc_pressure_mem", "file", "write"),
            ("hindsightd", "proc_pressure_cpu", "file", "read"),
            ("hindsightd", "proc_pressure_io", "file", "read"),
            ("hindsightd", "proc_vmstat", "file", "read"),
            ("hindsightd", "sysfs", "dir", "read"),
            ("hindsightd", "sysfs_thermal", "dir", "search"),
            ("hindsightd", "sysfs_thermal", "file", "read"),
            ("hindsightd", "sysfs_thermal", "lnk_file", "read"),
            ("hindsightd", "hindsight_keys_file", "dir", "open"),
            ("hindsightd", "hindsight_keys_file", "file", "open"),
            ("hindsightd", "hindsight_keys_file", "file", "read"),
            ("hindsightd", "logdr_socket", "sock_file", "write"),
            ("hindsightd", "logd", "unix_stream_socket", "connectto"),
        ];
        // Makes folders; writes a hidden file, syncs and renames it; lists and removes; reads for a command.
        for permission in [
            "create",
            "open",
            "read",
            "write",
            "search",
            "add_name",
            "remove_name",
        ] {
            needed.push(("hindsightd", "hindsight_data_file", "dir", permission));
        }
        for permission in [
            "create", "open", "read", "write", "rename", "unlink", "getattr", "lock",
        ] {
            needed.push(("hindsightd", "hindsight_data_file", "file", permission));
        }
        expected.given(&needed, true);
        let refused = [
            ("hindsightd", "proc_pressure_cpu", "file", "write"),
            ("hindsightd", "sysfs_thermal", "file", "write"),
            ("hindsightd", "sysfs", "file", "read"),
            ("hindsightd", "proc", "file", "read"),
            ("hindsightd", "app_data_file", "file", "read"),
            ("hindsightd", "privapp_data_file", "dir", "search"),
            ("hindsightd", "method_trace_data_file", "file", "open"),
            ("hindsightd", "system_data_file", "file", "read"),
            ("hindsightd", "hindsightd", "tcp_socket", "create"),
            ("hindsightd", "hindsightd", "udp_socket", "create"),
            ("hindsightd", "hindsightd", "capability", "kill"),
            ("hindsightd", "hindsightd", "capability", "sys_ptrace"),
            ("hindsightd", "system_server", "process", "signal"),
            ("hindsightd", "init", "unix_stream_socket", "connectto"),
            ("hindsightd", "logd_socket", "sock_file", "write"),
            ("hindsightd", "logcat_exec", "file", "execute"),
            ("hindsightd", "hindsight_prop", "property_service", "set"),
            ("hindsightd", "hindsight_data_file", "file", "execute"),
            ("untrusted_app", "hindsightd", "process", "transition"),
            ("hindsightd", "hindsight_keys_file", "file", "write"),
            ("init", "hindsight_keys_file", "file", "write"),
        ];
        expected.given(&refused, false);
        expected.check(build);
    }
}

/// Settings in all builds, the shell in debuggable ones: they give commands, and get reports as open files.
#[test]
fn settings_and_the_shell_get_reports_from_the_service_only() {
    if !can_check("settings_and_the_shell_get_reports_from_the_service_only") {
        return;
    }
    for build in shipped() {
        let mut expected = Expected::default();
        let is_debuggable = build.variant != "user";
        for (domain, is_allowed) in [
            ("system_app", true),
            ("shell", is_debuggable),
            ("untrusted_app", false),
            ("system_server", false),
            ("dumpstate", false),
            ("vendor_hal", false),
        ] {
            let asked = [
                (domain, "hindsightd_commands_socket", "sock_file", "write"),
                (domain, "hindsight_data_file", "file", "read"),
                (domain, "hindsight_data_file", "file", "getattr"),
                (domain, "hindsight_service_prop", "property_service", "set"),
            ];
            expected.given(&asked, is_allowed);
            let never = [
                (domain, "hindsight_data_file", "file", "open"),
                (domain, "hindsight_data_file", "file", "write"),
                (domain, "hindsight_data_file", "dir", "open"),
            ];
            expected.given(&never, false);
        }
        let client = [("shell", "hindsightd_exec", "file", "execute_no_trans")];
        expected.given(&client, is_debuggable);
        let answered = [
            ("system_app", "hindsightd", "fd", "use"),
            (
                "system_app",
                "hindsightd",
                "unix_stream_socket",
                "connectto",
            ),
        ];
        expected.given(&answered, true);
        // Only in debuggable builds does somebody else set the configuration.
        let set = [("shell", "hindsight_prop", "property_service", "set")];
        expected.given(&set, is_debuggable);
        let set = [("system_app", "hindsight_prop", "property_service", "set")];
        expected.given(&set, false);
        expected.check(build);
    }
}

/// Rules that a later policy could add, of a product or a vendor: each violates a neverallow rule.
const FORBIDDEN: [&str; 21] = [
    "allow system_app hindsight_keys_file:file write;",
    "allow dumpstate hindsight_data_file:file { open read };",
    "allow dumpstate hindsight_data_file:file read;",
    "allow system_app hindsight_data_file:file open;",
    "allow shell hindsight_data_file:dir search;",
    "allow untrusted_app hindsight_data_file:file getattr;",
    "allow vendor_init hindsight_data_file:dir search;",
    "allow untrusted_app hindsightd_commands_socket:sock_file write;",
    "allow isolated_app hindsightd_socket:sock_file write;",
    "allow isolated_app hindsightd:unix_stream_socket connectto;",
    "allow vendor_hal hindsightd_socket:sock_file write;",
    "allow hindsightd self:tcp_socket create;",
    "allow hindsightd self:capability kill;",
    "allow hindsightd app_data_file:file read;",
    "allow hindsightd untrusted_app:file read;",
    "allow hindsightd system_server:process ptrace;",
    "allow hindsightd untrusted_app:process sigkill;",
    "type other_prop, property_type, system_property_type; allow hindsightd other_prop:property_service set;",
    "allow hindsightd self:process execmem;",
    "allow shell hindsightd:process transition;",
    "allow untrusted_app hindsight_service_prop:property_service set;",
];

#[test]
fn later_rules_cannot_open_it() {
    if !can_check("later_rules_cannot_open_it") {
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
    for variant in ["user", "userdebug"] {
        let sandbox = "allow sdk_sandbox hindsightd_socket:sock_file write;";
        let said = check(Build::new("android-14", variant), sandbox).unwrap_err();
        assert!(said.contains("neverallow failures occurred"), "{said}");
    }
    // The shell's rights end with debuggable builds.
    let read = "allow shell hindsight_data_file:file read;";
    for release in RELEASES {
        check(Build::new(release, "userdebug"), read).unwrap();
        check(Build::new(release, "user"), read).unwrap_err();
    }
}

/// The attributes by which AOSP's rules know a program of the system: the policy does not compile without one.
#[test]
fn a_missing_attribute_is_an_error() {
    if !can_check("a_missing_attribute_is_an_error") {
        return;
    }
    let build = Build::new("android-10", "user");
    for attribute in [
        "system_file_type, exec_type",
        "coredomain_socket",
        "core_data_file_type",
    ] {
        let mut ours = rules(build.release);
        let text = ours.get_mut("hindsightd.te").unwrap();
        let without = text.replace(&format!(", {attribute}"), "");
        assert_ne!(*text, without, "{attribute}");
        *text = without;
        check_rules(build, &ours, "").expect_err(attribute);
    }
}

/// The names that init's script, the policy's labels and the program use are the same.
#[test]
fn labels_and_script_name_the_same_files() {
    let common = checkout().join("aosp/common");
    let read = |path: &str| std::fs::read_to_string(common.join(path)).unwrap();
    let contexts = read("sepolicy/private/file_contexts");
    let labels: Vec<(&str, &str)> = contexts
        .lines()
        .filter(|line| line.starts_with('/'))
        .map(|line| line.split_once(char::is_whitespace).unwrap())
        .map(|(path, label)| (path, label.trim()))
        .collect();
    let expected = [
        ("/system/bin/hindsightd", "hindsightd_exec"),
        ("/system/etc/hindsight/keys(/.*)?", "hindsight_keys_file"),
        ("/dev/socket/hindsightd", "hindsightd_socket"),
        (
            "/dev/socket/hindsightd_commands",
            "hindsightd_commands_socket",
        ),
        ("/data/misc/hindsight(/.*)?", "hindsight_data_file"),
        (
            "/dev/socket/hindsightd_uploads",
            "hindsightd_uploads_socket",
        ),
        ("/system/bin/hindsight-perfetto", "hindsight_perfetto_exec"),
        ("/system/bin/hindsight-upload", "hindsight_upload_exec"),
    ]
    .map(|(path, label)| (path, format!("u:object_r:{label}:s0")));
    let found: Vec<_> = labels
        .iter()
        .map(|(path, label)| (*path, (*label).to_owned()))
        .collect();
    assert_eq!(found, expected);
    for release in RELEASES {
        let policy: String = rules(release).into_values().collect();
        for (_, label) in &labels {
            let name = label.split(':').nth(2).unwrap();
            assert!(
                policy.contains(&format!("type {name},")),
                "{release}: {name}"
            );
        }
    }
    let script = read("service/hindsightd.rc");
    let (program, sockets) = (
        read("service/hindsightd.cc"),
        ["hindsightd", "hindsightd_commands", "hindsightd_uploads"],
    );
    for socket in sockets {
        let made = script
            .lines()
            .filter(|line| line.trim().starts_with(&format!("socket {socket} ")));
        assert_eq!(made.count(), 1, "{socket}");
        assert!(
            program.contains(&format!("AddSocket(log, \"{socket}\", ")),
            "{socket}"
        );
    }
    assert!(script.contains(
        "service hindsightd /system/bin/hindsightd --store /data/misc/hindsight --policy-keys /system/etc/hindsight/keys --unsigned-policies ${ro.debuggable:-0}\n"
    ));
    assert!(script.contains("mkdir /data/misc/hindsight 0700 nobody nobody\n"));
}
