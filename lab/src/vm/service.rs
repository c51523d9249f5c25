// SPDX-License-Identifier: Apache-2.0
//! The steps on hindsightd: the shipped init script, program and policy, and processes of several users and domains that
//! talk to it.

use super::policy::Policy;
use super::steps::{
    as_app, load, quoted, run_as, Expected, Identity, Step, APP, NEIGHBOUR, SHELL, SU,
    SYSTEM_SERVER,
};

/// The policy file of the guest's service: every end of a process is kept, and nobody is asked. On a busy host a first transaction
/// may take a second, which is not the one to be reported.
pub(super) const POLICY_FILE: &str = "\
version = 1
[memory]
call-rings = 8
[[record.override]]
package = \"behind\"
background = true
[reports]
killed = \"all\"
[limits]
device = 100
per-uid = 100
per-detector = 100
[consent.end-user]
unasked = \"full\"
[detectors.long-binder-wait]
limit-ms = 4000
";

/// The user of the service, and its domain.
const SERVICE_UID: u32 = 9999;
const DOMAIN: &str = "u:r:hindsightd:s0";

/// What gives commands: Settings.
const SETTINGS: Identity = Identity {
    name: "settings",
    uid: 1000,
    context: "u:r:system_app:s0",
};
/// Settings of user 10.
const SETTINGS_OF_10: Identity = Identity {
    name: "settings_10",
    uid: 1_001_000,
    context: "u:r:system_app:s0",
};
/// The same app in the work profile of user 10: another uid, and other categories.
const WORK: Identity = Identity {
    name: "work",
    uid: 1_010_001,
    context: "u:r:untrusted_app:s0:c1,c256,c522,c768",
};
const ISOLATED: Identity = Identity {
    name: "isolated",
    uid: 99_001,
    context: "u:r:isolated_app:s0:c512,c768",
};

const STORE: &str = "/data/misc/hindsight";
/// Init's part, without what it is to do.
const INIT: &str = "/bin/vm-guest init /hindsightd.rc /file_contexts";

/// A step whose command is a line of the guest's init.
pub(super) fn line(name: impl Into<String>, line: &str, expected: Expected) -> Step {
    Step::new(name, format!("eval {}", quoted(line)), expected)
}

pub(super) fn says(text: impl Into<String>) -> Expected {
    Expected::Says(text.into())
}

fn ask(who: Identity, command: &str) -> String {
    as_app(who, &format!("/bin/vm-guest ask {}", quoted(command)))
}

/// Waits until hindsightd's answer to a command has this text.
pub(super) fn answer_has(command: &str, text: &str) -> String {
    format!("await answer_has {} {}", quoted(command), quoted(text))
}

/// Starts hindsightd as init does, and waits until it answers.
fn start_service() -> String {
    let extra = "--policy /policy.toml --free-mib 0";
    format!(
        "start hindsightd {INIT} start hindsightd {extra} && {}",
        answer_has("status", "ok")
    )
}

/// A process joins, and says so.
fn joins(who: Identity) -> Step {
    let name = who.name;
    let command = as_app(who, &format!("/bin/vm-guest app {name}"));
    line(
        format!("{name} hands over its memory, as user {}", who.uid),
        &format!("start {name} {command} && await grep joined /tmp/{name}.out"),
        says("joined"),
    )
}

/// A process is killed, and leaves a report.
fn killed(who: Identity) -> Step {
    let name = who.name;
    let kill = format!("kill -9 $(pid_of {name})");
    let report = answer_has("reports", &format!("\"uid\":{}", who.uid));
    line(
        format!("{name} is killed by SIGKILL, and leaves a report"),
        &format!("{kill} && {report}"),
        says("\"severity\":\"fatal\""),
    )
}

fn denied(permission: &'static str, class: &'static str, object: &'static str) -> Expected {
    Expected::Denied {
        permission,
        class,
        object,
    }
}

/// The steps that all others need: the policy of a user build, and the service.
pub(super) fn begin() -> Vec<Step> {
    let mut steps = vec![load(Policy::User)];
    steps.extend(start());
    steps
}

/// The steps. `app` is the command line of an app on ART that works until it is killed.
pub(super) fn steps(app: &str) -> Vec<Step> {
    let mut steps = begin();
    for who in [NEIGHBOUR, WORK, SYSTEM_SERVER] {
        steps.push(joins(who));
    }
    steps.push(Step::new(
        "an isolated process may not connect, and nothing is logged about it",
        as_app(ISOLATED, "/bin/vm-guest connect"),
        Expected::RefusedByModes,
    ));
    for who in [WORK, SYSTEM_SERVER] {
        steps.push(killed(who));
    }
    steps.extend(reports());
    steps.extend(commands());
    steps.extend(confined());
    steps.extend(art(app));
    steps.push(load(Policy::Debuggable));
    steps.push(Step::new(
        "in a debuggable build the shell gives commands",
        ask(SHELL, "status"),
        says("ok"),
    ));
    steps.push(Step::new(
        "also by the service's program, as a client",
        as_app(SHELL, "/system/bin/hindsightd --command dump"),
        says("reports"),
    ));
    steps.push(Step::new(
        "and an app does not",
        run_as(SETTINGS.uid, NEIGHBOUR.context, "/bin/vm-guest ask status"),
        denied("write", "sock_file", "hindsightd_commands_socket"),
    ));
    steps
}

/// Real shortage of memory: a process in a small control group takes more and more, so that the kernel reclaims, and ends it.
pub(super) fn shortage() -> Vec<Step> {
    const HOG: Identity = Identity {
        name: "hog",
        uid: 10_077,
        context: "u:r:untrusted_app:s0:c77,c256,c512,c768",
    };
    const BEHIND: Identity = Identity {
        name: "behind",
        uid: 10_078,
        context: "u:r:untrusted_app:s0:c78,c256,c512,c768",
    };
    let rings = |count: u32| {
        answer_has(
            "status",
            &format!("\"name\":\"behind\"[^}}]*\"rings_held\":{count}"),
        )
    };
    let group = [
        "echo +memory > /sys/fs/cgroup/cgroup.subtree_control",
        "mkdir /sys/fs/cgroup/small",
        "echo 16M > /sys/fs/cgroup/small/memory.high",
        "echo 20M > /sys/fs/cgroup/small/memory.max",
    ];
    let join = |who: Identity, how: &str| {
        let command = format!("/bin/vm-guest app {} {how}", who.name);
        as_app(who, &command)
    };
    let needs = &["cgroup-memory", "pressure"];
    let mut steps = vec![
        line(
            "there is a control group with little memory",
            &group.join(" && "),
            Expected::Success,
        ),
        line(
            "a process that the user does not see gets a ring by an exception of the policy",
            &format!("start behind {} && {}", join(BEHIND, "behind"), rings(1)),
            says("ok"),
        ),
        line(
            "memory is short: hindsightd hears of it, and takes the ring back",
            &format!(
                "start hog in_cgroup small {} && {}",
                join(HOG, "grows"),
                rings(0)
            ),
            says("ok"),
        ),
        line(
            "the kernel ends the process that took the memory",
            "await grep -x 'oom_kill [1-9].*' /sys/fs/cgroup/small/memory.events",
            says("oom_kill"),
        ),
        line(
            "which leaves a report, and that names the kernel's count of such ends",
            &answer_has("reports", &format!("\"uid\":{}", HOG.uid)),
            says("oom_kill rose by"),
        ),
        line(
            "memory is there again, and so is the ring",
            &rings(1),
            says("ok"),
        ),
    ];
    for step in &mut steps {
        step.needs = needs;
    }
    steps
}

/// The last steps.
pub(super) fn end() -> Vec<Step> {
    vec![line(
        "hindsightd ends when init tells it to",
        "kill $(pidof hindsightd) && await no_service",
        Expected::Success,
    )]
}

/// Init's part.
fn start() -> Vec<Step> {
    let place = [
        "mkdir -p /system",
        "mount -t tmpfs system /system",
        "folder /system 0755 0 0 u:object_r:system_file:s0",
        "folder /system/bin 0755 0 0 u:object_r:system_file:s0",
        "cp /bin/hindsightd /system/bin",
        "confine --label u:object_r:hindsightd_exec:s0 /system/bin/hindsightd",
        "mount -t tmpfs sockets /dev/socket",
        "folder /dev/socket 0755 0 0 u:object_r:socket_device:s0",
    ];
    let state = "pid=$(pidof hindsightd); echo $(cat /proc/$pid/attr/current) \
        $(grep -e Uid -e Groups -e CapEff /proc/$pid/status)";
    let expected = format!(
        "{DOMAIN} Uid: {SERVICE_UID} {SERVICE_UID} {SERVICE_UID} {SERVICE_UID} Groups: 1000 1007 \
         CapEff: 0000000000000000"
    );
    vec![
        line(
            "the program and the folder of sockets have their labels",
            &place.join(" && "),
            Expected::Success,
        ),
        line(
            "init makes the service's folder, for nobody else",
            &format!("{INIT} boot && /bin/vm-guest stat {STORE}"),
            says(format!(
                "0700 {SERVICE_UID}:{SERVICE_UID} u:object_r:hindsight_data_file:s0"
            )),
        ),
        line(
            "init makes the sockets and starts hindsightd, which answers",
            &start_service(),
            says("ok"),
        ),
        line(
            "it runs in its domain, as its user, without capabilities",
            state,
            says(expected),
        ),
        Step::new(
            "the socket of processes is open to all since it listens",
            "/bin/vm-guest stat /dev/socket/hindsightd",
            says("0666 9999:9999 u:object_r:hindsightd_socket:s0"),
        ),
        Step::new(
            "the socket of commands is open by its mode, for Settings of all users",
            "/bin/vm-guest stat /dev/socket/hindsightd_commands",
            says("0666 1000:2000 u:object_r:hindsightd_commands_socket:s0"),
        ),
        Step::new(
            "the socket of uploads is the uploader's",
            "/bin/vm-guest stat /dev/socket/hindsightd_uploads",
            says("0660 9999:1042 u:object_r:hindsightd_uploads_socket:s0"),
        ),
    ]
}

/// Who sees the reports.
fn reports() -> Vec<Step> {
    let first = format!("{STORE}/1.hindsight");
    let cat = format!("/bin/busybox cat {first}");
    vec![
        line(
            "a report is a file of the service's, with its label",
            &format!("/bin/vm-guest stat {first} {STORE}/1.toml"),
            says("0600 9999:9999 u:object_r:hindsight_data_file:s0"),
        ),
        Step::new(
            "the modes keep an app from reports",
            run_as(NEIGHBOUR.uid, SU, &cat),
            Expected::RefusedByModes,
        ),
        Step::new(
            "SELinux keeps an app from reports",
            run_as(SERVICE_UID, NEIGHBOUR.context, &cat),
            denied("search", "dir", "hindsight_data_file"),
        ),
        Step::new(
            "SELinux keeps Settings from opening reports",
            run_as(SERVICE_UID, SETTINGS.context, &cat),
            denied("search", "dir", "hindsight_data_file"),
        ),
        Step::new(
            "Settings gets a report as an open file, to be read only",
            ask(SETTINGS, "get 1"),
            says("HSGT"),
        ),
    ]
}

/// Who gives commands.
fn commands() -> Vec<Step> {
    let socket = || denied("write", "sock_file", "hindsightd_commands_socket");
    vec![
        line(
            "the service closes the connection of an app that gives a command",
            &format!(
                "test -z \"$({} 2>/dev/null)\" && echo not a byte",
                run_as(NEIGHBOUR.uid, SU, "/bin/vm-guest ask status")
            ),
            says("not a byte"),
        ),
        Step::new(
            "Settings of a second user chooses for that user",
            ask(SETTINGS_OF_10, "consent set full user 10"),
            says("\"chosen\":\"full\""),
        ),
        line(
            "and for nobody else",
            &format!("! {}", ask(SETTINGS_OF_10, "consent set none")),
            says("may only choose for this user"),
        ),
        Step::new(
            "SELinux keeps an app from giving commands",
            run_as(SETTINGS.uid, NEIGHBOUR.context, "/bin/vm-guest ask status"),
            socket(),
        ),
        Step::new(
            "in a user build the shell gives none",
            ask(SHELL, "status"),
            socket(),
        ),
    ]
}

/// What the service may not do, whoever has taken it over.
fn confined() -> Vec<Step> {
    vec![
        Step::new(
            "the domain hindsightd may not look into an app's folder",
            run_as(APP.uid, DOMAIN, "/bin/busybox cat /data/data/app/secret"),
            denied("search", "dir", "app_data_file"),
        ),
        Step::new(
            "nor write to the folder of ART's method traces",
            run_as(0, DOMAIN, "/bin/busybox touch /data/misc/trace/x"),
            denied("search", "dir", "method_trace_data_file"),
        ),
        line(
            "nor end an app",
            &run_as(
                NEIGHBOUR.uid,
                DOMAIN,
                &format!("/bin/busybox kill -9 $(pid_of {})", NEIGHBOUR.name),
            ),
            denied_process("sigkill"),
        ),
    ]
}

fn denied_process(permission: &'static str) -> Expected {
    Expected::DeniedToProcess {
        permission,
        class: "process",
    }
}

/// An app on ART with the shipped configuration, which lives through a restart of the service.
fn art(app: &str) -> Vec<Step> {
    let command = as_app(APP, &format!("/bin/busybox env {app}"));
    let is_recorded = answer_has(
        "status",
        &format!(
            "\"uid\":{},\"connection\":\"connected\"[^}}]*\"rings_held\":1",
            APP.uid
        ),
    );
    vec![
        line(
            "an app on ART joins, and gets a ring",
            &format!("start {} {command} && {is_recorded}", APP.name),
            says("ok"),
        ),
        line(
            "hindsightd is killed by SIGKILL, and started again",
            &format!(
                "kill -9 $(pidof hindsightd) && await no_service && {}",
                start_service()
            ),
            says("ok"),
        ),
        line(
            "the app comes back to it by itself, and records on",
            &format!("{is_recorded} && await goes_on {}", APP.name),
            says("round"),
        ),
        killed(APP),
        line(
            "the reports from before the restart are still there",
            &answer_has("reports", &format!("\"uid\":{}", WORK.uid)),
            says("ok"),
        ),
    ]
}
