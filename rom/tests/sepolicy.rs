// SPDX-License-Identifier: Apache-2.0
//! The SELinux policy, compiled by checkpolicy with a base policy: the types that ours refers to, and
//! AOSP's allow and neverallow rules that concern them. Two questions: is each rule of ours *legal*, and are
//! they *sufficient* for what an app does. AOSP's own build checks the whole policy.

mod common;

use common::{checkout, has_tools};
use std::process::Command;

const RELEASES: [&str; 3] = ["android-10", "android-11", "android-14"];

/// Macros with the meaning that they have in system/sepolicy, as far as they are used.
const MACROS: &str = r"
define(`r_file_perms', `{ getattr open read map }')
define(`w_file_perms', `{ open append write lock map }')
define(`w_dir_perms', `{ open search write add_name remove_name lock }')
define(`unix_socket_connect', `allow $1 $2_socket:sock_file write; allow $1 $3:unix_stream_socket connectto;')
define(`get_prop', `allow $1 $2:file r_file_perms;')
define(`set_prop', `unix_socket_connect($1, property, init) allow $1 $2:property_service set; get_prop($1, $2)')
define(`system_internal_prop', `type $1, property_type, system_property_type, system_internal_property_type;')
define(`userdebug_or_eng', ifelse(VARIANT, `user', `', `$1'))
define(`compatible_property_only', ifelse(PROPERTIES, `compatible', `$1'))
define(`not_compatible_property', ifelse(PROPERTIES, `compatible', `', `$1'))
";

const CLASSES: &str = r"
class process
class file
class dir
class sock_file
class unix_stream_socket
class property_service
sid kernel
common file { getattr open read write append create rename unlink lock map setattr link }
class process { fork transition }
class file inherits file
class dir inherits file { search add_name remove_name }
class sock_file inherits file
class unix_stream_socket { connectto }
class property_service { set }
sensitivity s0;
dominance { s0 }
category c0;
level s0:c0;
mlsconstrain file { create } (l1 eq l2 or l1 dom l2);
";

const TYPES: &str = r"
attribute domain; attribute coredomain; attribute appdomain; attribute file_type; attribute property_type;
attribute system_property_type; attribute system_internal_property_type;
attribute core_property_type; attribute extended_core_property_type;
type kernel, domain, coredomain;
type init, domain, coredomain; type shell, domain, coredomain, appdomain; type su, domain, coredomain;
type system_server, domain, coredomain; type zygote, domain, coredomain;
type untrusted_app, domain, coredomain, appdomain; type isolated_app, domain, coredomain, appdomain;
type platform_app, domain, coredomain, appdomain;
type vendor_init, domain; type vendor_hal, domain;
type app_data_file, file_type; type method_trace_data_file, file_type; type system_data_file, file_type;
type property_socket, file_type; type vendor_default_prop, property_type;
allow init property_type:property_service set;
";

/// Rules about properties, from property.te and vendor_init.te. The types with an attribute of the system's
/// stand for the lists of types that Android 10 has in their place.
const PROPERTIES: &str = r"
not_compatible_property(`
  allow vendor_init { property_type -system_internal_property_type }:property_service set;
')
compatible_property_only(`
  neverallow { coredomain -init }
    { property_type -system_property_type -core_property_type -extended_core_property_type -vendor_default_prop }
    :property_service set;
  neverallow { domain -coredomain -appdomain -vendor_init }
    { core_property_type extended_core_property_type system_internal_property_type }:property_service set;
')
neverallow { domain -coredomain } system_internal_property_type:property_service set;
neverallow { domain -coredomain } system_internal_property_type:file { open read };
neverallow vendor_hal property_type:file { open read };
";

/// Rules about apps, from app_neverallows.te and domain.te: apps set no properties, create files in few places,
/// and link none.
const APPS: &str = r"
define(`all_untrusted_apps', `{ untrusted_app isolated_app }')
neverallow all_untrusted_apps property_socket:sock_file write;
neverallow all_untrusted_apps property_type:property_service set;
neverallow all_untrusted_apps file_type:file link;
neverallow all_untrusted_apps { file_type -app_data_file userdebug_or_eng(`-method_trace_data_file') }:{ file dir sock_file } { create unlink };
";

const END: &str = r"
role r; role r types domain;
user u roles r level s0 range s0 - s0:c0;
sid kernel u:r:kernel:s0
";

/// How a policy is built.
#[derive(Clone, Copy, Debug)]
struct Build {
    release: &'static str,
    /// `user` or `userdebug`.
    variant: &'static str,
    /// PRODUCT_COMPATIBLE_PROPERTY. Of every product; but Android 10 checks its neverallow rules without it.
    compatible: bool,
}

/// Every build of a release that its makefiles make.
fn builds(release: &'static str) -> Vec<Build> {
    let of = |variant, compatible| Build {
        release,
        variant,
        compatible,
    };
    vec![
        of("user", true),
        of("userdebug", true),
        // sepolicy_neverallows of Android 10: always user, always without compatible properties.
        of("user", false),
    ]
}

/// The errors that checkpolicy has about a policy with `more` rules at its end; none if it compiles.
fn check(build: Build, more: &str) -> Result<(), String> {
    let root = checkout().join("aosp");
    let mut te = String::new();
    for name in ["hindsight.te", "hindsight_prop.te"] {
        let of_release = root.join(build.release).join("sepolicy/private").join(name);
        let common = root.join("common/sepolicy/private").join(name);
        // The file of the release takes the place of the common one.
        let file = if of_release.exists() {
            of_release
        } else {
            common
        };
        te += &std::fs::read_to_string(&file).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let (input, conf) = (dir.path().join("policy.te"), dir.path().join("policy.conf"));
    // In the order of AOSP's build: macros, all rules, then roles and users.
    let text = [MACROS, CLASSES, TYPES, PROPERTIES, APPS, &te, more, END].concat();
    std::fs::write(&input, text).unwrap();
    let properties = if build.compatible { "compatible" } else { "" };
    let m4 = Command::new("m4")
        .arg(format!("-DVARIANT={}", build.variant))
        .arg(format!("-DPROPERTIES={properties}"))
        .arg(&input)
        .output()
        .unwrap();
    assert!(
        m4.status.success(),
        "{}",
        String::from_utf8_lossy(&m4.stderr)
    );
    std::fs::write(&conf, m4.stdout).unwrap();
    let output = Command::new(checkpolicy())
        .args(["-M", "-c", "30", "-o", "/dev/null"])
        .arg(&conf)
        .output()
        .unwrap();
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

fn checkpolicy() -> std::ffi::OsString {
    std::env::var_os("CHECKPOLICY").unwrap_or_else(|| "checkpolicy".into())
}

fn can_check(test: &str) -> bool {
    has_tools(
        test,
        &[(&*checkpolicy(), "checkpolicy"), ("m4".as_ref(), "m4")],
    )
}

#[test]
fn it_compiles_and_violates_no_neverallow() {
    if !can_check("it_compiles_and_violates_no_neverallow") {
        return;
    }
    for build in RELEASES.into_iter().flat_map(builds) {
        check(build, "").unwrap_or_else(|said| panic!("{build:?}: {said}"));
    }
}

/// The base policy forbids what it is here to forbid.
#[test]
fn forbidden_rules_are_found() {
    if !can_check("forbidden_rules_are_found") {
        return;
    }
    let build = |variant| Build {
        release: "android-10",
        variant,
        compatible: true,
    };
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
        let build = |variant| Build {
            release,
            variant,
            compatible: true,
        };
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
    let line = contexts
        .lines()
        .find(|line| !line.starts_with('#') && !line.is_empty())
        .unwrap();
    assert_eq!(line, "persist.hindsight. u:object_r:hindsight_prop:s0");
    let script = std::fs::read_to_string(common.join("hindsight.rc")).unwrap();
    for line in script
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
    assert!(script.contains("trace=main,events=all,dir=/data/misc/trace"));
}
