// SPDX-License-Identifier: Apache-2.0
//! The overlay's SELinux policy with a small base policy, for checkpolicy. The base has the types that ours refers to, and
//! rules with the meaning of AOSP's that concern them: allow and neverallow rules, and constraints on categories (MLS).

#![allow(dead_code, reason = "each test program uses a part of it")]

use super::{checkout, has_tools};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

pub(crate) const RELEASES: [&str; 3] = ["android-10", "android-11", "android-14"];

/// Macros with the meaning that they have in system/sepolicy, as far as they are used.
const MACROS: &str = r"
define(`r_file_perms', `{ getattr open read map }')
define(`rx_file_perms', `{ getattr open read map execute execute_no_trans }')
define(`w_file_perms', `{ open append write lock map }')
define(`r_dir_perms', `{ open getattr read search }')
define(`rw_file_perms', `{ getattr open read append write lock map }')
define(`create_file_perms', `{ create rename setattr unlink getattr open read append write lock map }')
define(`w_dir_perms', `{ open search write add_name remove_name lock }')
define(`create_dir_perms', `{ create rename rmdir setattr getattr open read search write add_name remove_name lock }')
define(`dir_file_class_set', `{ dir file lnk_file sock_file }')
define(`global_capability_class_set', `{ capability cap_userns }')
define(`unix_socket_connect', `allow $1 $2_socket:sock_file write; allow $1 $3:unix_stream_socket connectto;')
define(`get_prop', `allow $1 $2:file r_file_perms;')
define(`set_prop', `unix_socket_connect($1, property, init) allow $1 $2:property_service set; get_prop($1, $2)')
define(`system_internal_prop', `type $1, property_type, system_property_type, system_internal_property_type;')
define(`init_daemon_domain', `
  type_transition init $1_exec:process $1;
  allow init $1_exec:file { getattr open read execute };
  allow init $1:process transition;
  allow $1 $1_exec:file { entrypoint open read execute getattr map };
')
define(`net_domain', `typeattribute $1 netdomain;')
define(`userdebug_or_eng', ifelse(VARIANT, `user', `', `$1'))
define(`compatible_property_only', ifelse(PROPERTIES, `compatible', `$1'))
define(`not_compatible_property', ifelse(PROPERTIES, `compatible', `', `$1'))
define(`since_14', ifelse(RELEASE, `android-14', `$1'))
define(`before_14', ifelse(RELEASE, `android-14', `', `$1'))
";

const CLASSES: &str = r"
class process
class fd
class file
class dir
class lnk_file
class sock_file
class unix_stream_socket
class tcp_socket
class udp_socket
class rawip_socket
class icmp_socket
class packet_socket
class netlink_route_socket
class capability
class cap_userns
class property_service
sid kernel
common file { getattr open read write append create rename unlink lock map setattr link execute entrypoint execute_no_trans }
common socket { create bind connect listen accept read write getattr setopt }
common cap { dac_override sys_ptrace kill sys_resource net_admin }
class process { fork transition dyntransition ptrace signal sigkill sigstop execmem }
class fd { use }
class file inherits file
class dir inherits file { search add_name remove_name rmdir }
class lnk_file inherits file
class sock_file inherits file
class unix_stream_socket inherits socket { connectto }
class tcp_socket inherits socket
class udp_socket inherits socket
class rawip_socket inherits socket
class icmp_socket inherits socket
class packet_socket inherits socket
class netlink_route_socket inherits socket
class capability inherits cap
class cap_userns inherits cap
class property_service { set }
sensitivity s0;
dominance { s0 }
category c0; category c1; category c2; category c3;
level s0:c0.c3;
";

/// Constraints on categories, which apps have by their user and their package. Sharper than AOSP's, which exempt memory
/// files of apps (`appdomain_tmpfs`) from some of them.
const CONSTRAINTS: &str = r"
mlsconstrain process transition ((h1 eq h2 and l1 eq l2) or t1 == mlstrustedsubject);
mlsconstrain unix_stream_socket connectto (l1 eq l2 or t1 == mlstrustedsubject or t2 == mlstrustedsubject);
mlsconstrain { dir file sock_file } create (l2 eq h2 and (l1 eq l2 or t1 == mlstrustedsubject));
mlsconstrain { dir file sock_file } { read getattr }
  (l1 dom l2 or t1 == mlstrustedsubject or t2 == mlstrustedobject);
mlsconstrain { dir file sock_file } { write setattr append unlink rename }
  (l1 eq l2 or t1 == mlstrustedsubject or t2 == mlstrustedobject);
";

const TYPES: &str = r"
attribute mlstrustedsubject; attribute mlstrustedobject;
attribute domain; attribute coredomain; attribute appdomain; attribute property_type;
attribute file_type; attribute exec_type; attribute system_file_type; attribute coredomain_socket;
attribute data_file_type; attribute core_data_file_type; attribute netdomain;
attribute system_property_type; attribute system_internal_property_type;
attribute core_property_type; attribute extended_core_property_type;
type kernel, domain, coredomain;
type init, domain, coredomain; type shell, domain, coredomain, appdomain, mlstrustedsubject;
type su, domain, coredomain, mlstrustedsubject;
type system_server, domain, coredomain, mlstrustedsubject; type zygote, domain, coredomain, mlstrustedsubject;
type dumpstate, domain, coredomain, mlstrustedsubject; type traced, domain, coredomain, mlstrustedsubject;
type untrusted_app, domain, coredomain, appdomain;
type platform_app, domain, coredomain, appdomain; type system_app, domain, coredomain, appdomain;
before_14(`type isolated_app, domain, coredomain, appdomain;')
since_14(`
  attribute isolated_app_all; attribute sdk_sandbox_all;
  type isolated_app, domain, coredomain, appdomain, isolated_app_all;
  type isolated_compute_app, domain, coredomain, appdomain, isolated_app_all;
  type sdk_sandbox, domain, coredomain, appdomain, sdk_sandbox_all;
')
type vendor_init, domain; type vendor_hal, domain;
type app_data_file, file_type, data_file_type, core_data_file_type;
type privapp_data_file, file_type, data_file_type, core_data_file_type;
type method_trace_data_file, file_type, data_file_type, core_data_file_type, mlstrustedobject;
type system_data_file, file_type, data_file_type, core_data_file_type;
type tmpfs; type appdomain_tmpfs, file_type; type system_server_tmpfs, file_type;
type socket_device;
type proc; type proc_pressure_cpu; type proc_pressure_io; type proc_pressure_mem; type proc_vmstat;
type sysfs; type sysfs_thermal;
type traced_tmpfs, file_type, mlstrustedobject; type traced_producer_socket, file_type, coredomain_socket, mlstrustedobject;
type netd, domain, coredomain, mlstrustedsubject; type dnsproxyd_socket, file_type, coredomain_socket, mlstrustedobject;
type logd, domain, coredomain, mlstrustedsubject; type logdr_socket, file_type, coredomain_socket, mlstrustedobject;
type logd_socket, file_type, coredomain_socket, mlstrustedobject; type logcat_exec, file_type, exec_type, system_file_type;
type property_socket, file_type, coredomain_socket, mlstrustedobject; type vendor_default_prop, property_type;
";

/// What every process, init and vendor_init may do.
const WIDE: &str = r"
allow domain self:process { fork signal sigkill sigstop };
allow domain self:fd use;
allow domain self:unix_stream_socket { create bind connect listen accept read write getattr setopt connectto };
allow domain init:fd use;
allow domain socket_device:dir { getattr open read search };
allow domain system_data_file:dir search;
allow init property_type:property_service set;
allow init domain:unix_stream_socket { create bind setopt };
allow init { file_type -app_data_file -privapp_data_file -exec_type -system_file_type }:dir { create getattr open read search setattr write add_name remove_name rmdir };
allow init { file_type -app_data_file -privapp_data_file -exec_type -system_file_type }:file { create getattr open read write setattr unlink map };
allow init { file_type -app_data_file -privapp_data_file -exec_type -system_file_type }:sock_file { create getattr open read setattr unlink };
allow vendor_init { file_type -core_data_file_type -exec_type -system_file_type }:{ dir file sock_file } { create getattr open read setattr unlink };
allow system_server { appdomain_tmpfs system_server_tmpfs }:file { getattr map read write };
allow appdomain appdomain_tmpfs:file { getattr map read write };
allow netdomain self:{ tcp_socket udp_socket } { create bind connect read write getattr setopt };
unix_socket_connect(netdomain, dnsproxyd, netd)
allow traced traced_tmpfs:file { getattr map read write };
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

/// Rules about a program of the system: it uses files of the system's side by path only, starts by its own file, leaves
/// apps' files alone, and is a domain.
const SYSTEM: &str = r"
neverallow { coredomain -init } { file_type -coredomain_socket -core_data_file_type }:sock_file { open create setattr unlink };
neverallow { coredomain -init } { proc sysfs }:file { open read write append };
neverallow { coredomain -appdomain -init } { data_file_type -core_data_file_type }:file { open create unlink };
neverallow { domain -coredomain -appdomain -vendor_init } { coredomain_socket core_data_file_type }:sock_file { open create setattr };
neverallow { domain -coredomain -appdomain } core_data_file_type:file { open create };
neverallow domain { file_type -exec_type }:file entrypoint;
neverallow { domain -appdomain } data_file_type:file execute;
neverallow domain { system_file_type exec_type }:dir_file_class_set { create write setattr append unlink link rename };
neverallow ~domain domain:process { transition dyntransition };
neverallow { domain -appdomain } { app_data_file privapp_data_file }:dir_file_class_set { create unlink open };
neverallow mlstrustedsubject { app_data_file privapp_data_file }:dir { read getattr search };
neverallow domain { property_type }:file { write append };
neverallow traced domain:process ptrace;
neverallow traced { data_file_type -method_trace_data_file }:file ~write;
";

const END: &str = r"
role r; role r types domain; role object_r;
user u roles { r object_r } level s0 range s0 - s0:c0.c3;
sid kernel u:r:kernel:s0
";

/// How a policy is built.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Build {
    pub(crate) release: &'static str,
    /// `user` or `userdebug`.
    pub(crate) variant: &'static str,
    /// PRODUCT_COMPATIBLE_PROPERTY. Of every product; but Android 10 checks its neverallow rules without it.
    pub(crate) compatible: bool,
}

impl Build {
    pub(crate) fn new(release: &'static str, variant: &'static str) -> Build {
        Build {
            release,
            variant,
            compatible: true,
        }
    }

    /// Every build of a release that its makefiles make.
    pub(crate) fn all(release: &'static str) -> Vec<Build> {
        vec![
            Build::new(release, "user"),
            Build::new(release, "userdebug"),
            // sepolicy_neverallows of Android 10: always user, always without compatible properties.
            Build {
                compatible: false,
                ..Build::new(release, "user")
            },
        ]
    }
}

/// The overlay's files of policy rules, in the order that the build reads them: a release's file takes the place of the
/// common one.
pub(crate) fn rules(release: &str) -> BTreeMap<String, String> {
    let root = checkout().join("aosp");
    let mut all = BTreeMap::new();
    for folder in ["common", release] {
        let folder = root.join(folder).join("sepolicy/private");
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "te") {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                all.insert(name, std::fs::read_to_string(path).unwrap());
            }
        }
    }
    all
}

/// Compiles these rules of ours with the base policy and `more` rules at the end.
fn compile(build: Build, ours: &BTreeMap<String, String>, more: &str, dir: &Path) -> Output {
    let (input, conf) = (dir.join("policy.te"), dir.join("policy.conf"));
    let ours: String = ours.values().map(String::as_str).collect();
    // In the order of AOSP's build: macros, constraints, all rules, then roles and users.
    let base = [
        MACROS,
        CLASSES,
        CONSTRAINTS,
        TYPES,
        WIDE,
        PROPERTIES,
        APPS,
        SYSTEM,
    ];
    let text = [base.concat().as_str(), &ours, more, END].concat();
    std::fs::write(&input, text).unwrap();
    let properties = if build.compatible { "compatible" } else { "" };
    let m4 = Command::new("m4")
        .arg(format!("-DVARIANT={}", build.variant))
        .arg(format!("-DPROPERTIES={properties}"))
        .arg(format!("-DRELEASE={}", build.release))
        .arg(&input)
        .output()
        .unwrap();
    assert!(
        m4.status.success(),
        "{}",
        String::from_utf8_lossy(&m4.stderr)
    );
    std::fs::write(&conf, m4.stdout).unwrap();
    let mut command = Command::new(checkpolicy());
    command.args(["-M", "-c", "30", "-o", "/dev/null"]);
    command.arg(&conf).output().unwrap()
}

/// The errors that checkpolicy has about a policy with `more` rules at its end; none if it compiles.
pub(crate) fn check(build: Build, more: &str) -> Result<(), String> {
    check_rules(build, &rules(build.release), more)
}

/// As [`check`], with these rules in place of the overlay's.
pub(crate) fn check_rules(
    build: Build,
    ours: &BTreeMap<String, String>,
    more: &str,
) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let output = compile(build, ours, more, dir.path());
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// One question to a policy: which permissions a process has on an object.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) source: String,
    pub(crate) target: String,
    pub(crate) class: &'static str,
}

impl Question {
    /// A process in a domain, and an object or another process; each a type, or a type and its level as in `shell:s0:c1`.
    pub(crate) fn new(source: &str, target: &str, class: &'static str) -> Question {
        let of_process = matches!(class, "process" | "fd") || class.ends_with("_socket");
        let context = |name: &str, role: &str| match name.split_once(':') {
            Some((name, level)) => format!("u:{role}:{name}:{level}"),
            None => format!("u:{role}:{name}:s0"),
        };
        Question {
            source: context(source, "r"),
            target: context(target, if of_process { "r" } else { "object_r" }),
            class,
        }
    }
}

/// The permissions that a policy gives, for each question: as the kernel computes them, constraints included. Asks
/// checkpolicy's debug mode, which has a menu.
pub(crate) fn permissions(build: Build, questions: &[Question]) -> Vec<Vec<String>> {
    let dir = tempfile::tempdir().unwrap();
    let output = compile(build, &rules(build.release), "", dir.path());
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let conf = dir.path().join("policy.conf");
    let mut contexts = String::new();
    for question in questions {
        contexts += &format!("2\n{}\n2\n{}\n", question.source, question.target);
    }
    let said = ask(&conf, &contexts);
    let sids: Vec<&str> = said
        .lines()
        .filter_map(|line| line.trim().strip_prefix("sid "))
        .collect();
    assert_eq!(sids.len(), 2 * questions.len(), "{said}");
    let mut asked = contexts.clone();
    for (question, pair) in questions.iter().zip(sids.chunks(2)) {
        asked += &format!("0\n{}\n{}\n{}\n", pair[0], pair[1], question.class);
    }
    let said = ask(&conf, &asked);
    let answers: Vec<Vec<String>> = said
        .lines()
        .filter_map(|line| line.trim().strip_prefix("allowed {")?.strip_suffix('}'))
        .map(|names| names.split_whitespace().map(str::to_owned).collect())
        .collect();
    assert_eq!(answers.len(), questions.len(), "{said}");
    answers
}

fn ask(conf: &Path, lines: &str) -> String {
    let mut debugger = Command::new(checkpolicy())
        .args(["-M", "-c", "30", "-d", "-o", "/dev/null"])
        .arg(conf)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = debugger.stdin.take().unwrap();
    let lines = format!("{lines}q\n");
    // The answers may fill the pipe before all lines are written.
    let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let output = debugger.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn checkpolicy() -> OsString {
    std::env::var_os("CHECKPOLICY").unwrap_or_else(|| "checkpolicy".into())
}

/// Whether the programs are there; see [`has_tools`].
pub(crate) fn can_check(test: &str) -> bool {
    has_tools(
        test,
        &[(&*checkpolicy(), "checkpolicy"), ("m4".as_ref(), "m4")],
    )
}
