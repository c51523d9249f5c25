// SPDX-License-Identifier: Apache-2.0
//! The SELinux policy, compiled by checkpolicy with a base that has what it refers to, and those of
//! Android 10's neverallow rules that are about what it allows. AOSP's whole policy is not needed for
//! that, and its own build checks the rest.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn checkout() -> PathBuf {
    Path::new(env!("HINDSIGHT_CHECKOUT"))
        .canonicalize()
        .unwrap()
}

/// Macros as system/sepolicy has them, as far as they are used.
const MACROS: &str = r"
define(`r_file_perms', `{ getattr open read map }')
define(`w_file_perms', `{ open append write lock map }')
define(`w_dir_perms', `{ open search write add_name remove_name lock }')
define(`unix_socket_connect', `allow $1 $2_socket:sock_file write; allow $1 $3:unix_stream_socket connectto;')
define(`get_prop', `allow $1 $2:file r_file_perms;')
define(`set_prop', `unix_socket_connect($1, property, init) allow $1 $2:property_service set; get_prop($1, $2)')
define(`system_internal_prop', `type $1, property_type, system_property_type, system_internal_property_type;')
define(`userdebug_or_eng', ifelse(VARIANT, `user', `', `$1'))
";

const BASE: &str = r"
class process class file class dir class sock_file class unix_stream_socket class property_service
sid kernel
common file { getattr open read write append create rename unlink lock map setattr link }
class process { fork transition }
class file inherits file
class dir inherits file { search add_name remove_name }
class sock_file inherits file
class unix_stream_socket { connectto }
class property_service { set }
attribute domain; attribute coredomain; attribute appdomain; attribute file_type; attribute property_type;
attribute system_property_type; attribute system_internal_property_type;
type kernel, domain, coredomain;
type init, domain, coredomain; type shell, domain, coredomain, appdomain; type su, domain, coredomain;
type system_server, domain, coredomain; type zygote, domain, coredomain;
type untrusted_app, domain, coredomain, appdomain; type isolated_app, domain, coredomain, appdomain;
type vendor_hal, domain;
type app_data_file, file_type; type method_trace_data_file, file_type; type system_data_file, file_type;
type property_socket, file_type; type other_prop, property_type;
allow init property_type:property_service set;
";

/// From app_neverallows.te and domain.te of Android 10: apps set no properties, make files in few
/// places, and link none.
const NEVERALLOW: &str = r"
define(`all_untrusted_apps', `{ untrusted_app isolated_app }')
neverallow all_untrusted_apps property_socket:sock_file write;
neverallow all_untrusted_apps property_type:property_service set;
neverallow all_untrusted_apps file_type:file link;
neverallow all_untrusted_apps { file_type -app_data_file userdebug_or_eng(`-method_trace_data_file') }:{ file dir sock_file } { create unlink };
neverallow vendor_hal property_type:file { open read };
";

const END: &str = r"
role r; role r types domain;
user u roles r level s0 range s0;
sid kernel u:r:kernel:s0
";

fn base(te: &str) -> String {
    // MLS, as Android's policy has it: one sensitivity.
    let (classes, types) = BASE.split_once("attribute domain").unwrap();
    let classes = classes.replacen(" class ", "\nclass ", 10);
    format!(
        "{MACROS}{classes}\nsensitivity s0;\ndominance {{ s0 }}\ncategory c0;\nlevel s0:c0;\n\
         mlsconstrain file {{ create }} (l1 eq l2 or l1 dom l2);\nattribute domain{types}{NEVERALLOW}{te}{}",
        END.replace("level s0 range s0", "level s0 range s0 - s0:c0")
    )
}

/// What checkpolicy says of the policy of a release in a build variant; nothing if it is fine.
fn check(release: &str, variant: &str, more: &str) -> Result<(), String> {
    let root = checkout().join("aosp");
    let mut te = String::new();
    for dir in [
        format!("{release}/sepolicy/private"),
        "common/sepolicy/private".to_owned(),
    ] {
        for name in ["hindsight_prop.te", "hindsight.te"] {
            te += &std::fs::read_to_string(root.join(&dir).join(name)).unwrap_or_default();
        }
    }
    assert!(te.contains("hindsight_prop"), "{release}");
    te += more;
    let dir = tempfile::tempdir().unwrap();
    let (input, conf) = (dir.path().join("policy.te"), dir.path().join("policy.conf"));
    std::fs::write(&input, base(&te)).unwrap();
    let m4 = Command::new("m4")
        .arg(format!("-DVARIANT={variant}"))
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

fn can_check() -> bool {
    let runs = |program: &std::ffi::OsStr| {
        Command::new(program)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok()
    };
    let there = runs(&checkpolicy()) && runs("m4".as_ref());
    if !there {
        eprintln!("skipped: needs checkpolicy (the Debian package checkpolicy, or CHECKPOLICY=path) and m4");
    }
    there
}

#[test]
fn it_compiles_and_violates_no_neverallow() {
    if !can_check() {
        return;
    }
    for release in ["android-10", "android-11", "android-14"] {
        for variant in ["user", "userdebug"] {
            check(release, variant, "")
                .unwrap_or_else(|said| panic!("{release} {variant}: {said}"));
        }
    }
}

#[test]
fn our_own_neverallow_holds_in_user_builds() {
    if !can_check() {
        return;
    }
    let set = "allow shell hindsight_prop:property_service set;";
    check("android-10", "userdebug", set).unwrap();
    let said = check("android-10", "user", set).unwrap_err();
    assert!(said.contains("neverallow"), "{said}");
    // The base's own, so that the check above is known to check.
    let create = "allow untrusted_app method_trace_data_file:file create;";
    assert!(check("android-10", "user", create)
        .unwrap_err()
        .contains("neverallow"));
    assert!(check(
        "android-10",
        "user",
        "allow untrusted_app nothing:file read;"
    )
    .is_err());
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
    // A value that is set has to be one that the runtime understands.
    assert!(script.contains("trace=main,dir=/data/misc/trace"));
}
