// SPDX-License-Identifier: Apache-2.0
//! The steps that the guest runs, and what each of them has to come to.

use super::console::Outcome;
use super::policy::Policy;
use crate::util::first_lines;

/// The lines of a step's output that an objection has.
const SHOWN_LINES: usize = 12;

/// An app, or another process of Android with its own domain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    /// The name in the trace's reason.
    pub(super) name: &'static str,
    pub(super) uid: u32,
    pub(super) context: &'static str,
}

/// The level of an app has the categories of its uid and of its user, as libselinux makes it (levelFrom=all).
pub(super) const APP: Identity = Identity {
    name: "app",
    uid: 10001,
    context: "u:r:untrusted_app:s0:c1,c256,c512,c768",
};
pub(super) const NEIGHBOUR: Identity = Identity {
    name: "neighbour",
    uid: 10002,
    context: "u:r:untrusted_app:s0:c2,c256,c512,c768",
};
pub(super) const SHELL: Identity = Identity {
    name: "shell",
    uid: 2000,
    context: "u:r:shell:s0",
};
pub(super) const SYSTEM_SERVER: Identity = Identity {
    name: "system_server",
    uid: 1000,
    context: "u:r:system_server:s0",
};
/// The domain in which SELinux forbids nothing: what is refused there, the modes refuse.
pub(super) const SU: &str = "u:r:su:s0";

/// The accounts of these uids: ART asks for the name of its own.
pub(super) const ACCOUNTS: &str = "root:x:0:0::/:\nsystem:x:1000:1000::/:\nshell:x:2000:2000::/:\n\
    u0_a1:x:10001:10001::/:\nu0_a2:x:10002:10002::/:\nu0_a3:x:10003:10003::/:\n";

/// What a snapshot does with files, without Java: busybox's tools start in a second.
const SAVE: &str = "cd /data/misc/trace && echo > .$$.tmp && mv .$$.tmp $$.saved";

/// What a step has to come to.
#[derive(Clone, Debug)]
pub(super) enum Expected {
    /// It succeeds.
    Success,
    /// It succeeds, and its output has this text.
    Says(String),
    /// It succeeds, and its output has no such text.
    SaysNot(&'static str),
    /// It fails, and SELinux has denied this.
    Denied {
        permission: &'static str,
        class: &'static str,
        object: &'static str,
    },
    /// It fails, and SELinux has denied this to be done to another process.
    DeniedToProcess {
        permission: &'static str,
        class: &'static str,
    },
    /// It fails for want of permission, and SELinux has denied nothing: the modes refuse it.
    RefusedByModes,
}

/// A step of the guest.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) name: String,
    /// A command of the shell.
    pub(super) command: String,
    pub(super) expected: Expected,
    /// Parts of the kernel without which it is skipped.
    pub(super) needs: &'static [&'static str],
}

impl Step {
    pub(super) fn new(
        name: impl Into<String>,
        command: impl Into<String>,
        expected: Expected,
    ) -> Step {
        Step {
            name: name.into(),
            command: command.into(),
            expected,
            needs: &[],
        }
    }

    /// Why the outcome is not the expected one.
    pub(super) fn objection(&self, outcome: &Outcome) -> Option<String> {
        let said = outcome.said.join("\n");
        let Some(status) = outcome.status else {
            return Some(format!("it has not ended: {said}"));
        };
        let denials: Vec<&String> = outcome
            .audited
            .iter()
            // In a permissive domain nothing is denied, although it is logged.
            .filter(|line| line.starts_with("denied") && line.contains("permissive=0"))
            .collect();
        let objection = match &self.expected {
            Expected::Success | Expected::Says(_) | Expected::SaysNot(_) if status != 0 => {
                format!("it failed (exit status {status})")
            }
            Expected::Success | Expected::Says(_) if !denials.is_empty() => {
                "it succeeded, but SELinux denied a part of it".to_owned()
            }
            Expected::Success => return None,
            Expected::Says(text) if said.contains(text) => return None,
            Expected::Says(text) => format!("its output has no '{text}'"),
            Expected::SaysNot(text) if !said.contains(text) => return None,
            Expected::SaysNot(text) => format!("its output has '{text}'"),
            Expected::Denied { .. }
            | Expected::DeniedToProcess { .. }
            | Expected::RefusedByModes
                if status == 0 =>
            {
                "it succeeded".to_owned()
            }
            Expected::DeniedToProcess { permission, class } => {
                let permitted = format!("{{ {permission} }}");
                let class = format!("tclass={class} ");
                let is_it = |line: &&String| line.contains(&permitted) && line.contains(&class);
                if denials.iter().any(is_it) {
                    return None;
                }
                format!("no denial of {permission} of a process is logged")
            }
            Expected::Denied {
                permission,
                class,
                object,
            } => {
                let is_it = |line: &&String| {
                    let named = line
                        .split_once('{')
                        .and_then(|(_, rest)| rest.split_once('}'))
                        .is_some_and(|(all, _)| {
                            all.split_whitespace().any(|one| one == *permission)
                        });
                    named
                        && line.contains(&format!("tcontext=u:object_r:{object}:"))
                        && line.contains(&format!("tclass={class} "))
                };
                if denials.iter().any(is_it) {
                    return None;
                }
                format!("no denial of {permission} of a {class} of {object} is logged")
            }
            Expected::RefusedByModes if !denials.is_empty() => "SELinux denied it".to_owned(),
            // The latter is the sticky bit's.
            Expected::RefusedByModes
                if said.contains("Permission denied")
                    || said.contains("Operation not permitted") =>
            {
                return None
            }
            Expected::RefusedByModes => "it was not for want of permission".to_owned(),
        };
        Some(format!(
            "{objection}; exit status {status}; it said: {}; SELinux: {}",
            first_lines(&said, SHOWN_LINES),
            denials
                .iter()
                .map(|line| line.as_str())
                .collect::<Vec<_>>()
                .join("; ")
        ))
    }
}

/// A program's command line that saves a snapshot, without the reason that it needs as its last argument.
pub(super) struct Program {
    /// Words with their environment in front, quoted for the shell.
    pub(super) words: String,
    /// What the overlay's `hindsight.rc` does with folders when tracing is switched on.
    pub(super) folders: String,
}

/// A word for the shell.
pub(super) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

pub(super) fn as_app(who: Identity, command: &str) -> String {
    run_as(who.uid, who.context, command)
}

pub(super) fn run_as(uid: u32, context: &str, command: &str) -> String {
    format!("as {uid} {context} {command}")
}

/// A line of a shell as an app, with busybox's tools.
pub(super) fn shell_as(uid: u32, context: &str, line: &str) -> String {
    run_as(
        uid,
        context,
        &format!("/bin/busybox sh -c {}", quoted(line)),
    )
}

fn snapshot(name: impl Into<String>, who: Identity, program: &Program, expected: Expected) -> Step {
    let command = as_app(
        who,
        &format!("/bin/busybox env {} {}", program.words, who.name),
    );
    Step::new(name, command, expected)
}

pub(super) fn load(policy: Policy) -> Step {
    let name = format!("the policy '{}' is loaded and enforced", policy.name());
    let command = format!("policy {} && cat /sys/fs/selinux/enforce", policy.name());
    // A function of init: the shell's eval takes the whole line.
    Step::new(
        name,
        format!("eval {}", quoted(&command)),
        Expected::Says("1".to_owned()),
    )
}

/// The folders that Android's init and installd make, with modes and labels as shipped.
fn folders() -> Step {
    let lines = [
        "mount -t tmpfs data /data",
        "folder /data 0771 1000 1000 u:object_r:system_data_file:s0",
        "folder /data/dalvik-cache 0771 0 0 u:object_r:dalvikcache_data_file:s0",
        "folder /data/misc 01771 1000 9998 u:object_r:system_data_file:s0",
        "folder /data/misc/trace 0773 0 0 u:object_r:method_trace_data_file:s0",
        "folder /data/data 0771 1000 1000 u:object_r:system_data_file:s0",
        "folder /data/data/app 0700 10001 10001 u:object_r:app_data_file:s0:c1,c256,c512,c768",
        "folder /data/data/neighbour 0700 10002 10002 u:object_r:app_data_file:s0:c2,c256,c512,c768",
    ];
    let command = format!("eval {}", quoted(&lines.join(" && ")));
    Step::new(
        "the folders have their modes and labels",
        command,
        Expected::Success,
    )
}

/// The steps that all others need.
pub(super) fn begin() -> Vec<Step> {
    vec![load(Policy::WithoutOverlay), folders()]
}

/// Every step of the guest on traces without the service, in order. Those on SELinux come to nothing without it.
pub(super) fn all(program: &Program) -> Vec<Step> {
    let mut steps = begin();
    steps.push(Step::new(
        "an app runs in its domain, with its categories",
        as_app(APP, "/bin/busybox cat /proc/self/attr/current"),
        Expected::Says(APP.context.to_owned()),
    ));
    let trace_file = |permission| Expected::Denied {
        permission,
        class: "file",
        object: "method_trace_data_file",
    };
    steps.extend([
        snapshot(
            "without the overlay's rules an app saves no snapshot",
            APP,
            program,
            trace_file("rename"),
        ),
        Step::new(
            "and leaves no file that is named like a trace",
            "ls /data/misc/trace",
            Expected::SaysNot(".hindsight"),
        ),
        Step::new(
            "its leftover is removed",
            "rm -r /data/misc/trace",
            Expected::Success,
        ),
        folders_again(),
        Step::new(
            "hindsight.rc changes the folders' modes",
            format!("eval {}", quoted(&program.folders)),
            Expected::Success,
        ),
        load(Policy::User),
        Step::new(
            "in a user build an app creates no file",
            shell_as(APP.uid, APP.context, SAVE),
            Expected::Denied {
                permission: "search",
                class: "dir",
                object: "method_trace_data_file",
            },
        ),
        load(Policy::Debuggable),
    ]);
    for who in [APP, NEIGHBOUR] {
        let name = format!("the {} saves a snapshot", who.name);
        steps.push(snapshot(
            name,
            who,
            program,
            Expected::Says("file=/data/misc/trace/".to_owned()),
        ));
    }
    for who in [SHELL, SYSTEM_SERVER] {
        let name = format!("the domain {} writes and renames a file", who.name);
        steps.push(Step::new(
            name,
            shell_as(who.uid, who.context, SAVE),
            Expected::Success,
        ));
    }
    steps.extend(neighbours());
    steps
}

fn folders_again() -> Step {
    let command = "folder /data/misc/trace 0773 0 0 u:object_r:method_trace_data_file:s0";
    Step::new(
        "the folder of traces is empty again",
        command,
        Expected::Success,
    )
}

/// What an app has is out of its neighbour's reach: by the modes, and by SELinux. The modes are asked first, so that
/// SELinux only shows with a uid that the modes let through.
fn neighbours() -> Vec<Step> {
    let secret = "/data/data/app/secret";
    let trace = "$(ls -d /data/misc/trace/*.hindsight | head -n 1)";
    vec![
        Step::new(
            "an app writes to its own folder",
            shell_as(APP.uid, APP.context, &format!("echo secret > {secret}")),
            Expected::Success,
        ),
        Step::new(
            "and reads it",
            as_app(APP, &format!("/bin/busybox cat {secret}")),
            Expected::Says("secret".to_owned()),
        ),
        Step::new(
            "the modes keep a neighbour out of it",
            run_as(NEIGHBOUR.uid, SU, &format!("/bin/busybox cat {secret}")),
            Expected::RefusedByModes,
        ),
        Step::new(
            "SELinux keeps a neighbour out of it",
            run_as(
                APP.uid,
                NEIGHBOUR.context,
                &format!("/bin/busybox cat {secret}"),
            ),
            Expected::Denied {
                permission: "search",
                class: "dir",
                object: "app_data_file",
            },
        ),
        Step::new(
            "the modes keep a neighbour from reading a snapshot",
            run_as(NEIGHBOUR.uid, SU, &format!("/bin/busybox cat {trace}")),
            Expected::RefusedByModes,
        ),
        // SELinux lets every app read, for the list of its own snapshots: only the modes tell whose a file is.
        Step::new(
            "an app reads its own snapshot",
            as_app(APP, &format!("/bin/busybox head -c 9 {trace}")),
            Expected::Says("HSGT".to_owned()),
        ),
        Step::new(
            "the modes keep an app from listing snapshots",
            run_as(NEIGHBOUR.uid, SU, "/bin/busybox ls /data/misc/trace"),
            Expected::RefusedByModes,
        ),
        Step::new(
            "SELinux keeps an app from listing snapshots",
            // ls would ask for the folder's mode first.
            shell_as(
                0,
                NEIGHBOUR.context,
                "cd /data/misc/trace; set -- *.hindsight; test -e $1",
            ),
            Expected::Denied {
                permission: "read",
                class: "dir",
                object: "method_trace_data_file",
            },
        ),
        Step::new(
            "a neighbour can't remove a snapshot",
            as_app(NEIGHBOUR, &format!("/bin/busybox rm -f {trace}")),
            Expected::RefusedByModes,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(status: u32, said: &str, audited: &[&str]) -> Outcome {
        Outcome {
            status: Some(status),
            said: said.lines().map(str::to_owned).collect(),
            audited: audited.iter().map(|&line| line.to_owned()).collect(),
            ..Outcome::default()
        }
    }

    const DENIAL: &str = "denied  { rename } for  pid=1 comm=\"x\" name=\"t\" dev=\"tmpfs\" ino=9 \
        scontext=u:r:untrusted_app:s0:c1,c256 tcontext=u:object_r:method_trace_data_file:s0:c1,c256 \
        tclass=file permissive=0";

    #[test]
    fn a_denial_has_to_be_logged_and_to_be_the_expected_one() {
        let step = |permission, class, object| {
            Step::new(
                "s",
                "",
                Expected::Denied {
                    permission,
                    class,
                    object,
                },
            )
        };
        let expected = step("rename", "file", "method_trace_data_file");
        assert_eq!(expected.objection(&outcome(3, "", &[DENIAL])), None);
        let objection = |step: &Step, outcome: &Outcome| step.objection(outcome).unwrap();
        assert!(objection(&expected, &outcome(0, "", &[DENIAL])).starts_with("it succeeded"));
        assert!(objection(&expected, &outcome(3, "", &[])).starts_with("no denial of rename"));
        let permissive = DENIAL.replace("permissive=0", "permissive=1");
        for other in [
            objection(&expected, &outcome(3, "", &[&permissive])),
            objection(
                &step("unlink", "file", "method_trace_data_file"),
                &outcome(3, "", &[DENIAL]),
            ),
            objection(
                &step("rename", "dir", "method_trace_data_file"),
                &outcome(3, "", &[DENIAL]),
            ),
            objection(
                &step("rename", "file", "app_data_file"),
                &outcome(3, "", &[DENIAL]),
            ),
        ] {
            assert!(other.starts_with("no denial of"), "{other}");
        }
    }

    #[test]
    fn the_modes_refuse_only_without_a_denial() {
        let step = Step::new("s", "", Expected::RefusedByModes);
        let refused = "cat: can't open 'x': Permission denied";
        assert_eq!(step.objection(&outcome(1, refused, &[])), None);
        let said = |outcome| step.objection(&outcome).unwrap();
        assert!(said(outcome(1, refused, &[DENIAL])).starts_with("SELinux denied it"));
        assert!(said(outcome(1, "no such file", &[])).starts_with("it was not for want"));
        assert!(said(outcome(0, "", &[])).starts_with("it succeeded"));
    }

    #[test]
    fn output_and_exit_status_are_judged() {
        let says = Step::new("s", "", Expected::Says("file=/data".into()));
        assert_eq!(says.objection(&outcome(0, "x file=/data/y", &[])), None);
        assert!(says.objection(&outcome(0, "file=null", &[])).is_some());
        // The rules have to suffice for all that it does.
        assert!(says
            .objection(&outcome(0, "x file=/data/y", &[DENIAL]))
            .is_some());
        assert!(says.objection(&outcome(3, "x file=/data/y", &[])).is_some());
        let says_not = Step::new("s", "", Expected::SaysNot(".hindsight"));
        assert!(says_not
            .objection(&outcome(0, "a.hindsight", &[]))
            .is_some());
        assert!(says_not
            .objection(&Outcome::default())
            .unwrap()
            .starts_with("it has not ended"));
    }

    #[test]
    fn every_step_has_a_name_of_its_own() {
        let program = Program {
            words: String::new(),
            folders: String::new(),
        };
        let steps = all(&program);
        let names: std::collections::BTreeSet<&str> =
            steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(names.len(), steps.len());
    }
}
