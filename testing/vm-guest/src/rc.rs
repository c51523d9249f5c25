// SPDX-License-Identifier: Apache-2.0
//! The lines of an init script that the guest plays. An option that is not known here is an error, so that a new line of
//! `hindsightd.rc` is not ignored unnoticed.

use anyhow::{anyhow, bail, ensure, Context as _, Result};

/// A folder that is made at boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Folder {
    pub(crate) path: String,
    pub(crate) mode: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
}

/// A socket that is made before a service starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Socket {
    pub(crate) name: String,
    /// `SOCK_STREAM` or `SOCK_SEQPACKET`.
    pub(crate) kind: i32,
    pub(crate) mode: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
}

/// A service as the script has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Service {
    /// The program and its arguments.
    pub(crate) words: Vec<String>,
    pub(crate) user: u32,
    /// The first is the group itself, the others are supplementary.
    pub(crate) groups: Vec<u32>,
    pub(crate) sockets: Vec<Socket>,
    /// Resource, soft and hard limit.
    pub(crate) limits: Vec<(u32, u64, u64)>,
}

/// Options that change nothing that the guest has: there are no classes, no other processes that compete, no cpusets.
const NOT_PLAYED: [&str; 6] = [
    "class",
    "disabled",
    "priority",
    "ioprio",
    "oom_score_adjust",
    "writepid",
];

/// The number of a user or group of Android.
fn id(name: &str) -> Result<u32> {
    let known = [
        ("root", 0),
        ("system", 1000),
        ("metrics_coll", 1042),
        ("log", 1007),
        ("shell", 2000),
        ("inet", 3003),
        ("nobody", 9999),
    ];
    let found = known.iter().find(|(known, _)| *known == name);
    let found = found.map(|(_, number)| *number);
    found
        .or_else(|| name.parse().ok())
        .ok_or_else(|| anyhow!("the user or group '{name}' is not known here"))
}

fn octal(text: &str) -> Result<u32> {
    u32::from_str_radix(text, 8).with_context(|| format!("'{text}' is no mode"))
}

/// The lines of a section, without comments; the section is the line that begins with this.
fn section<'a>(script: &'a str, beginning: &'a str) -> impl Iterator<Item = Vec<&'a str>> {
    let mut is_inside = false;
    script.lines().filter_map(move |line| {
        let line = line.trim_end();
        if !line.starts_with([' ', '\t', '#']) && !line.is_empty() {
            is_inside = line == beginning || line.starts_with(&format!("{beginning} "));
            return None;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_command = words.first().is_some_and(|word| !word.starts_with('#'));
        (is_inside && is_command).then_some(words)
    })
}

/// The folders that `on post-fs-data` makes.
///
/// # Errors
/// If a line there is not `mkdir` with mode, user and group.
pub(crate) fn folders(script: &str) -> Result<Vec<Folder>> {
    let folder = |words: Vec<&str>| match words.as_slice() {
        ["mkdir", path, mode, user, group] => Ok(Folder {
            path: (*path).to_owned(),
            mode: octal(mode)?,
            user: id(user)?,
            group: id(group)?,
        }),
        other => Err(anyhow!("'{}' is not played here", other.join(" "))),
    };
    section(script, "on post-fs-data").map(folder).collect()
}

/// A word as init gives it to a program on a device that has none of the properties: `${NAME:-DEFAULT}` is DEFAULT.
fn expanded(word: &str) -> String {
    let inside = word.strip_prefix("${").and_then(|w| w.strip_suffix('}'));
    let default = inside.and_then(|inside| inside.split_once(":-"));
    default.map_or(word, |(_, default)| default).to_owned()
}

/// The service of this name.
///
/// # Errors
/// If there is none, or a line of it is not known.
pub(crate) fn service(script: &str, name: &str) -> Result<Service> {
    let beginning = format!("service {name}");
    let first = script
        .lines()
        .find_map(|line| line.strip_prefix(&beginning))
        .with_context(|| format!("the script has no '{beginning}'"))?;
    let mut service = Service {
        words: first.split_whitespace().map(expanded).collect(),
        ..Service::default()
    };
    ensure!(!service.words.is_empty(), "'{beginning}' has no program");
    for words in section(script, &beginning) {
        match words.as_slice() {
            [option, ..] if NOT_PLAYED.contains(option) => {}
            ["user", user] => service.user = id(user)?,
            ["group", groups @ ..] => {
                service.groups = groups
                    .iter()
                    .map(|group| id(group))
                    .collect::<Result<_>>()?;
            }
            ["socket", name, kind, mode, user, group] => service.sockets.push(Socket {
                name: (*name).to_owned(),
                kind: match *kind {
                    "stream" => libc::SOCK_STREAM,
                    "seqpacket" => libc::SOCK_SEQPACKET,
                    other => bail!("a socket of kind '{other}' is not played here"),
                },
                mode: octal(mode)?,
                user: id(user)?,
                group: id(group)?,
            }),
            ["rlimit", resource, soft, hard] => {
                let number = match *resource {
                    "data" => libc::RLIMIT_DATA,
                    "nofile" => libc::RLIMIT_NOFILE,
                    other => bail!("the limit '{other}' is not played here"),
                };
                service.limits.push((number, soft.parse()?, hard.parse()?));
            }
            other => bail!("'{}' is not played here", other.join(" ")),
        }
    }
    Ok(service)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "\
# a comment
on post-fs-data
    mkdir /data/misc/x 0700 nobody nobody
on property:a=1
    start x
service x /system/bin/x --store /data
    # one more
    user nobody
    group nobody system log
    socket x seqpacket 0600 nobody nobody
    rlimit data 10 20
service xy /system/bin/xy
    user root
";

    #[test]
    fn a_script_is_read_section_by_section() {
        let folders = folders(SCRIPT).unwrap();
        assert_eq!(folders.len(), 1);
        assert_eq!((folders[0].mode, folders[0].user), (0o700, 9999));
        let found = service(SCRIPT, "x").unwrap();
        assert_eq!(found.words, ["/system/bin/x", "--store", "/data"]);
        assert_eq!(
            (found.user, &*found.groups),
            (9999, &[9999, 1000, 1007][..])
        );
        assert_eq!(found.sockets[0].kind, libc::SOCK_SEQPACKET);
        assert_eq!(found.limits, [(libc::RLIMIT_DATA, 10, 20)]);
        assert_eq!(service(SCRIPT, "xy").unwrap().user, 0);
    }

    #[test]
    fn a_line_that_is_not_played_is_an_error() {
        for line in ["capabilities SYS_NICE", "user friend", "rlimit cpu 1 1"] {
            let script = format!("{SCRIPT}    {line}\n");
            assert!(service(&script, "xy").is_err(), "{line}");
        }
        assert!(service(SCRIPT, "y").is_err());
        let script = SCRIPT.replace("mkdir /data/misc/x", "mkdir /data/misc/x 1");
        assert!(super::folders(&script).is_err());
    }

    #[test]
    fn the_shipped_script_is_played() {
        let script = include_str!("../../../aosp/common/service/hindsightd.rc");
        assert_eq!(folders(script).unwrap().len(), 1);
        let found = service(script, "hindsightd").unwrap();
        assert_eq!((found.user, found.sockets.len()), (9999, 3));
        assert_eq!(found.words[5..], ["--unsigned-policies", "0"]);
    }
}
