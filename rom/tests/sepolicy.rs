// SPDX-License-Identifier: Apache-2.0
//! The SELinux policy, compiled by checkpolicy with a base policy: the types that ours refers to, and
//! AOSP's allow and neverallow rules that concern them. Two questions: is each rule of ours *legal*, and are
//! they *sufficient* for what an app does. AOSP's own build checks the whole policy.

mod common;

use common::checkout;
use common::policy::{can_check, check, Build, RELEASES};

#[test]
fn it_compiles_and_violates_no_neverallow() {
    if !can_check("it_compiles_and_violates_no_neverallow") {
        return;
    }
    for build in RELEASES.into_iter().flat_map(Build::all) {
        check(build, "").unwrap_or_else(|said| panic!("{build:?}: {said}"));
    }
}

/// The base policy forbids what it is here to forbid.
#[test]
fn forbidden_rules_are_found() {
    if !can_check("forbidden_rules_are_found") {
        return;
    }
    let build = |variant| Build::new("android-10", variant);
    let refused = |variant, rule: &str, because: &str| {
        let said = check(build(variant), rule).unwrap_err();
        assert!(said.contains(because), "{rule}: {said}");
    };
    // Our own rule: in user builds nobody but init sets the property.
    let set = "allow shell hindsight_prop:property_service set;";
    check(build("userdebug"), set).unwrap();
    refused("user", set, "neverallow");
    refused(
        "userdebug",
        "allow platform_app hindsight_prop:property_service set;",
        "neverallow",
    );
    // The base policy's rules.
    refused(
        "user",
        "allow untrusted_app method_trace_data_file:file create;",
        "neverallow",
    );
    refused(
        "userdebug",
        "type vendor_x_prop, property_type; allow shell vendor_x_prop:property_service set;",
        "neverallow",
    );
    refused(
        "userdebug",
        "allow vendor_hal hindsight_prop:file { open read };",
        "neverallow",
    );
    refused("user", "allow untrusted_app nothing:file read;", "nothing");
}

/// Access that an app needs for a trace: it reads the property; creates, writes and syncs a hidden file; renames it, or
/// removes it after an error.
const NEEDS: [(&str, &str, &[&str]); 3] = [
    (
        "hindsight_prop",
        "file",
        &["getattr", "open", "read", "map"],
    ),
    (
        "method_trace_data_file",
        "dir",
        &["search", "write", "add_name", "remove_name"],
    ),
    (
        "method_trace_data_file",
        "file",
        &["create", "open", "write", "getattr", "rename", "unlink"],
    ),
];

/// Which of these permissions (`domain type:class permission`) a policy gives. checkpolicy can't be asked for
/// that, but it names every allow rule that violates a neverallow rule: so each of them is forbidden here.
fn allowed(build: Build, permissions: &[String]) -> Vec<String> {
    let forbidden: String = permissions
        .iter()
        .map(|permission| format!("neverallow {permission};\n"))
        .collect();
    let said = check(build, &forbidden).err().unwrap_or_default();
    let given = permissions.iter().filter(|permission| {
        let (object, name) = permission.rsplit_once(' ').unwrap();
        said.contains(&format!("violated by allow {object} {{ {name} }};"))
    });
    let given: Vec<String> = given.cloned().collect();
    // Nothing but these violations was found.
    let failures = format!("{} neverallow failures occurred", given.len());
    assert!(said.is_empty() || said.contains(&failures), "{said}");
    given
}

fn needed_by(domain: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (object, class, permissions) in NEEDS {
        let of_class = permissions.iter();
        all.extend(of_class.map(|permission| format!("{domain} {object}:{class} {permission}")));
    }
    all
}

#[test]
fn apps_and_the_system_server_may_do_all_that_a_trace_needs() {
    if !can_check("apps_and_the_system_server_may_do_all_that_a_trace_needs") {
        return;
    }
    for release in RELEASES {
        let build = |variant| Build::new(release, variant);
        for domain in ["untrusted_app", "isolated_app", "system_server"] {
            let needed = needed_by(domain);
            assert_eq!(allowed(build("userdebug"), &needed), needed, "{release}");
            // In user builds the property can be read, and no file be written.
            let of_property: Vec<String> = needed
                .iter()
                .filter(|permission| permission.contains("hindsight_prop"))
                .cloned()
                .collect();
            assert_eq!(allowed(build("user"), &needed), of_property, "{release}");
        }
        // The answer depends on the domain: a vendor's process may do none of it.
        let needed = needed_by("vendor_hal");
        assert!(allowed(build("userdebug"), &needed).is_empty(), "{release}");
    }
}

#[test]
fn the_property_has_a_context_and_the_script_sets_what_it_covers() {
    let common = checkout().join("aosp/common");
    let contexts =
        std::fs::read_to_string(common.join("sepolicy/private/property_contexts")).unwrap();
    let lines: Vec<_> = contexts
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .collect();
    let expected = [
        "persist.hindsight. u:object_r:hindsight_prop:s0",
        "persist.hindsight.service u:object_r:hindsight_service_prop:s0 exact enum 0 1",
        "ro.hindsight.collector u:object_r:hindsight_prop:s0 exact string",
    ];
    assert_eq!(lines, expected);
    let scripts = ["hindsight.rc", "service/hindsightd.rc"]
        .map(|script| std::fs::read_to_string(common.join(script)).unwrap());
    for line in scripts
        .concat()
        .lines()
        .filter(|line| line.trim_start().starts_with("setprop"))
    {
        assert!(line.contains(" persist.hindsight."), "{line}");
        // A property holds 91 bytes.
        assert!(
            line.split_whitespace().nth(2).unwrap().len() <= 91,
            "{line}"
        );
    }
    // That the runtime understands it is a test of the runtime's configuration.
    let own = "trace=main,events=all,dir=/data/misc/trace";
    assert!(scripts.iter().all(|script| script.contains(own)));
    assert!(scripts[1].contains("trace=main,events=all,service=/dev/socket/hindsightd\n"));
}
