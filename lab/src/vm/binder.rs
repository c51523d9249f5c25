// SPDX-License-Identifier: Apache-2.0
//! The steps on transactions through the kernel's binder: a service and an app on ART, each in its domain, with rings of the
//! system service, and the kernel's own record of what they send each other.

use super::service::{answer_has, line, says};
use super::steps::{as_app, quoted, Expected, Identity, Step, NEIGHBOUR, SYSTEM_SERVER};

/// The library with the natives, in the guest.
pub(super) const LIBRARY: &str = "/bin/libkernel_binder.so";
/// The service and the app, below `lab/vm/java`.
pub(super) const SERVER: &str = "dev.hindsight.vm.BinderServer";
pub(super) const CLIENT: &str = "dev.hindsight.vm.BinderClient";

/// The app that waits for the service.
const CALLER: Identity = Identity {
    name: "caller",
    uid: 10_003,
    context: "u:r:untrusted_app:s0:c3,c256,c512,c768",
};
/// The service. It is its own service manager, which only the guest's policy lets this domain be.
const SERVICE: Identity = Identity {
    name: "service",
    ..SYSTEM_SERVER
};

/// The file that tells the app to begin.
const BEGIN: &str = "/tmp/begin";
const TRACING: &str = "/sys/kernel/tracing";
/// The kernel's events of which a trace of the whole device is made.
const EVENTS: [&str; 4] = [
    "sched/sched_switch",
    "sched/sched_waking",
    "binder/binder_transaction",
    "binder/binder_transaction_received",
];

/// A program on ART joins, and has a ring.
fn on_art(name: &str, who: Identity, command: &str) -> Step {
    let command = as_app(who, &format!("/bin/busybox env {command}"));
    let is_recorded = format!(
        "\"uid\":{},\"connection\":\"connected\"[^}}]*\"rings_held\":1",
        who.uid
    );
    line(
        name,
        &format!(
            "start {0} {command} && await grep joined /tmp/{0}.out && {1}",
            who.name,
            answer_has("status", &is_recorded)
        ),
        says("ok"),
    )
}

/// It is killed, and leaves a report.
fn killed(who: Identity) -> Step {
    let name = who.name;
    let report = format!(
        "pid=$(pid_of {name}); kill -9 $pid && await answer_has reports {}$pid,",
        quoted("\"severity\":\"fatal\".*\"pid\":")
    );
    line(
        format!("the {name} is killed, and leaves a report"),
        &report,
        says("\"detector\":\"killed\""),
    )
}

/// The steps. `server` and `client` are the command lines of the two programs on ART.
pub(super) fn steps(server: &str, client: &str) -> Vec<Step> {
    let device = [
        "confine --label u:object_r:binder_device:s0 /dev/binder",
        "chmod 0666 /dev/binder",
        "/bin/vm-guest stat /dev/binder",
    ];
    let mut steps = vec![
        line(
            "the driver of binder has its label, and is open to all",
            &device.join(" && "),
            says("0666 0:0 u:object_r:binder_device:s0"),
        ),
        Step::new(
            "SELinux keeps an app from becoming the service manager",
            as_app(NEIGHBOUR, "/bin/vm-guest manage-binder"),
            Expected::DeniedToProcess {
                permission: "set_context_mgr",
                class: "binder",
            },
        ),
        on_art(
            "a service on ART can be called through binder, and gets a ring",
            SERVICE,
            &format!("{server} {LIBRARY}"),
        ),
        on_art(
            "so does the app that will call it",
            CALLER,
            &format!("{client} {LIBRARY} {BEGIN}"),
        ),
    ];
    steps.extend(calls());
    steps.extend([killed(SERVICE), killed(CALLER)]);
    for step in &mut steps {
        if step.needs.is_empty() {
            step.needs = &["binder"];
        }
    }
    steps
}

/// The app calls the service; the kernel records that, too.
fn calls() -> Vec<Step> {
    let set = |value: &str, file: &str| format!("echo {value} > {TRACING}/{file}");
    let mut begin = vec![
        set("0", "tracing_on"),
        set("boot", "trace_clock"),
        set("16384", "buffer_size_kb"),
    ];
    begin.extend(EVENTS.map(|event| set("1", &format!("events/{event}/enable"))));
    begin.push(set("1", "tracing_on"));
    let end = [
        set("0", "tracing_on"),
        format!("{{ /bin/vm-guest clocks; cat {TRACING}/trace; }} > /tmp/kernel.txt"),
        "grep -c binder_transaction: /tmp/kernel.txt".to_owned(),
    ];
    let waits = format!("\"detector\":\"long-binder-wait\".*\"uid\":{},", CALLER.uid);
    let mut begin = line(
        "the kernel begins to record transactions and switches",
        &begin.join(" && "),
        Expected::Success,
    );
    let mut end = line("and has recorded", &end.join(" && "), Expected::Success);
    for step in [&mut begin, &mut end] {
        step.needs = &["binder", "binder-events"];
    }
    vec![
        begin,
        line(
            "the app gets all answers",
            &format!(
                "touch {BEGIN} && await grep answered /tmp/{}.out",
                CALLER.name
            ),
            says("answered"),
        ),
        line(
            "its long wait for the last one is reported",
            &answer_has("reports", &waits),
            says("\"severity\":\"slow\""),
        ),
        end,
    ]
}
