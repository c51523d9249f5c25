// SPDX-License-Identifier: Apache-2.0
//! What may leave the device, asked for by the uploader's socket.

mod common;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use common::{join_and_wait, wait_for, Peer, Service, APP_VERSION, POLICY};
use hindsight_service::os::{receive_packet, Packet};
use hindsight_service::upload::Sha256;

#[test]
#[ignore = "runs only as a child of the tests below"]
fn child_that_joins_and_waits() {
    join_and_wait(10);
}

struct Setup {
    service: Service,
    folder: tempfile::TempDir,
}

/// What the uploader is handed.
#[derive(Debug)]
struct Handed {
    words: Vec<String>,
    bytes: Vec<u8>,
}

impl Setup {
    fn new(policy: &str) -> Self {
        Setup::with(policy, &[])
    }

    fn with(policy: &str, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("uploads").to_str().unwrap().to_owned();
        let service = Service::start(policy, &[&["--uploads", &path], options].concat());
        Setup { service, folder }
    }

    fn reports(&self, count: usize) {
        for _ in 0..count {
            let before = self.service.reports().len();
            let mut peer = Peer::start(
                "child_that_joins_and_waits",
                self.service.folder.path(),
                "app",
            );
            peer.wait_for("joined");
            peer.kill();
            self.service.wait_for_reports(before + 1);
        }
    }

    fn say(&self, command: &str) -> UnixStream {
        let path = self.folder.path().join("uploads");
        let mut stream = UnixStream::connect(path).unwrap();
        writeln!(stream, "{command}").unwrap();
        stream
    }

    fn ask(&self, command: &str) -> (String, Option<File>) {
        Setup::answer(&self.say(command))
    }

    fn answer(stream: &UnixStream) -> (String, Option<File>) {
        let mut buffer = [0; 4096];
        stream.set_nonblocking(true).unwrap();
        wait_for("an answer", || {
            match receive_packet(stream.as_fd(), &mut buffer) {
                Ok(Packet::Nothing) => None,
                Ok(Packet::Bytes {
                    length, descriptor, ..
                }) => {
                    let text = String::from_utf8(buffer[..length].to_vec()).unwrap();
                    Some((text, descriptor.map(File::from)))
                }
                Ok(Packet::End) | Err(_) => Some((String::new(), None)),
            }
        })
    }

    fn next(&self) -> Handed {
        let (text, file) = self.ask("next");
        let line = text.lines().nth(1).unwrap_or_else(|| panic!("{text}"));
        let words = line.split(' ').map(str::to_owned).collect();
        let mut bytes = Vec::new();
        if let Some(mut file) = file {
            file.read_to_end(&mut bytes).unwrap();
        }
        Handed { words, bytes }
    }

    /// Takes a part, and says that it has arrived.
    fn send(&self) -> Handed {
        let handed = self.next();
        assert_eq!(handed.words[0], "item", "{handed:?}");
        assert_eq!(handed.words[3], handed.bytes.len().to_string());
        assert_eq!(handed.words[4], Sha256::of(&handed.bytes));
        let (text, _) = self.ask(&format!("done {} {}", handed.words[1], handed.words[2]));
        assert_eq!(text, "ok\n");
        handed
    }

    fn assert_nothing(&self, why: &str) {
        let handed = self.next();
        assert_eq!(handed.words[0], "nothing", "{handed:?}");
        assert!(handed.words.join(" ").contains(why), "{handed:?}");
    }
}

fn at_level(level: &str) -> String {
    POLICY.replace("unasked = \"full\"", &format!("unasked = \"{level}\""))
}

#[test]
fn the_text_that_leaves_is_the_one_that_is_shown() {
    let signature = "[[uploads.signature]]\nname = \"work\"\nstack = [\"com.example.Main.work\"]\n";
    for (level, has_names, has_trace) in [
        ("summary", false, false),
        ("signatures", true, false),
        ("full", true, true),
    ] {
        let setup = Setup::new(&(at_level(level) + signature));
        setup.reports(1);
        let id = setup.service.reports()[0]["report"].to_string();
        let mut shown = setup.service.ask(&format!("preview {id}"));
        assert_eq!(shown.remove(0), "ok");
        let last = shown.last().unwrap().clone();
        if has_trace {
            shown.pop();
        }
        let text = shown.join("\n") + "\n";
        // Twice the same until it has arrived.
        assert_eq!(setup.next().bytes, setup.next().bytes);
        let handed = setup.send();
        assert_eq!(String::from_utf8(handed.bytes).unwrap(), text);
        assert_eq!(handed.words[2], "text");
        assert!(text.contains(&format!("\nlevel {level}\n")), "{text}");
        assert_eq!(text.contains("com.example.Main.work"), has_names, "{text}");
        assert_eq!(text.contains("\nprocess app\n"), has_names, "{text}");
        let version = format!("\nversion {APP_VERSION}\n");
        assert_eq!(text.contains(&version), has_names, "{text}");
        let of_report = setup.service.reports()[0]["version"].as_u64();
        assert_eq!(of_report == Some(APP_VERSION), has_names, "{of_report:?}");
        assert_eq!(text.contains("  yes  10  "), has_names, "{text}");
        assert_eq!(text.contains("\nreason "), has_trace, "{text}");
        if has_trace {
            let trace = setup.send();
            assert!(last.ends_with(&trace.words.join(" ")), "{last}");
            assert_eq!(
                trace.bytes,
                setup.service.trace(&setup.service.reports()[0])
            );
        }
        setup.assert_nothing("no report");
    }
}

#[test]
fn nothing_leaves_without_consent_or_after_a_withdrawal() {
    let mut setup = Setup::new(&at_level("none"));
    setup.assert_nothing("no report");
    setup.service.ask("consent set signatures");
    setup.reports(1);
    assert_eq!(setup.next().words[0], "item");
    let id = setup.service.reports()[0]["report"].to_string();
    // The choices are lost: the report is there, and does not leave.
    setup.service.kill();
    fs::write(setup.service.path("store").join("consent.state"), "?").unwrap();
    setup.service.start_again();
    assert_eq!(setup.service.reports().len(), 1);
    setup.assert_nothing("no report");
    for command in ["preview", "get"] {
        let shown = setup.service.ask(&format!("{command} {id}"));
        assert!(shown[0].contains("there is no consent"), "{shown:?}");
    }
    setup.service.ask("consent set signatures");
    assert_eq!(setup.service.ask(&format!("get {id}"))[0], "ok");
    assert_eq!(setup.next().words[0], "item");
    setup.service.ask("consent withdraw");
    setup.assert_nothing("no report");
}

#[test]
fn what_was_handed_out_may_leave_only_as_long_as_it_is_allowed() {
    let setup = Setup::new(&at_level("none"));
    let still = |what: &str| {
        let (text, file) = setup.ask(&format!("still {what}"));
        assert!(file.is_none());
        let text = text
            .strip_prefix("ok\n")
            .unwrap_or_else(|| panic!("{text}"));
        let is_still = text == "still\n";
        assert!(is_still || text.starts_with("nothing "), "{text}");
        is_still
    };
    setup.service.ask("consent set full");
    setup.reports(1);
    let id = setup.service.reports()[0]["report"].to_string();
    let (text, trace) = (format!("{id} text"), format!("{id} trace"));
    // Nothing was handed out.
    assert!(!still(&text) && !still(&trace));
    setup.next();
    assert!(still(&text) && !still(&trace));
    // While nothing is recorded, nothing leaves either, but nothing is lost.
    setup.service.ask("switch off");
    assert!(!still(&text));
    setup.assert_nothing("the switch is off");
    setup.service.ask("switch on");
    assert!(still(&text));
    let disabled = POLICY.replace("version = 1", "version = 1\nenabled = false");
    fs::write(setup.service.path("disabled.toml"), disabled).unwrap();
    let path = setup.service.path("disabled.toml");
    let loaded = setup.service.ask(&format!("policy {}", path.display()));
    assert_eq!(loaded, ["ok"]);
    assert!(!still(&text));
    setup.assert_nothing("'enabled = false'");
    assert_eq!(setup.service.ask("policy default"), ["ok"]);
    assert_eq!(setup.send().words[2], "text");
    assert!(!still(&text));
    assert_eq!(setup.next().words[2], "trace");
    assert!(still(&trace));
    setup.service.ask("consent withdraw");
    assert!(!still(&trace));
    // A text that was made for more than is allowed now does not leave, although the report may stay.
    setup.service.ask("consent set summary");
    setup.reports(1);
    setup.service.ask("consent set full");
    let handed = setup.next();
    let text = format!("{} text", handed.words[1]);
    assert!(still(&text));
    setup.service.ask("consent set summary");
    assert_eq!(setup.service.reports().len(), 1);
    assert!(!still(&text));
    let next = setup.next();
    assert_ne!(next.bytes, handed.bytes);
    assert!(still(&text));
    assert!(!still("77 text"));
}

#[test]
fn with_a_permission_reports_leave_until_it_ends() {
    let mut setup = Setup::with(&at_level("full"), &["--uploads-when", "allowed"]);
    setup.reports(1);
    setup.assert_nothing("not allowed now");
    let waits = setup.say("wait 0");
    assert!(setup
        .service
        .ask("dump")
        .contains(&"uploads: not allowed now".to_owned()));
    for wrong in [
        "uploads allow 0",
        "uploads allow 61",
        "uploads allow",
        "uploads",
    ] {
        let answer = setup.service.ask(wrong);
        assert!(answer[0].starts_with("error "), "{wrong}: {answer:?}");
    }
    setup.assert_nothing("not allowed now");
    assert_eq!(setup.service.ask("uploads allow 10"), ["ok"]);
    let (told, _) = Setup::answer(&waits);
    let since = told
        .strip_prefix("ok\nallowed ")
        .unwrap_or_else(|| panic!("{told}"));
    let since: u64 = since.trim().parse().unwrap();
    assert!(since > 0);
    // Whoever asks later hears the same, and whoever has used this permission waits for the next one.
    assert_eq!(setup.ask("wait 0").0, told);
    let waits = setup.say(&format!("wait {since}"));
    let handed = setup.next();
    assert_eq!(handed.words[0], "item");
    let still = format!("still {} text", handed.words[1]);
    assert_eq!(setup.ask(&still).0, "ok\nstill\n");
    assert_eq!(setup.service.ask("uploads stop"), ["ok"]);
    assert!(setup
        .ask(&still)
        .0
        .starts_with("ok\nnothing uploads are not allowed"));
    setup.assert_nothing("not allowed now");

    assert_eq!(setup.service.ask("uploads allow 60"), ["ok"]);
    let (later, _) = Setup::answer(&waits);
    assert_ne!(later, told);
    assert_eq!(setup.ask(&still).0, "ok\nstill\n");
    // Nobody knows what the new service was allowed. What was handed out is not lost.
    setup.service.kill();
    std::fs::remove_file(setup.folder.path().join("uploads")).unwrap();
    setup.service.start_again();
    assert!(setup
        .ask(&still)
        .0
        .starts_with("ok\nnothing uploads are not allowed"));
    setup.service.ask("uploads allow 1");
    assert_eq!(setup.send().bytes, handed.bytes);
}

#[test]
fn a_report_of_nobody_knows_whom_does_not_leave_and_is_removed() {
    let damages: [fn(&std::path::Path); 3] = [
        |path| fs::remove_file(path).unwrap(),
        |path| fs::write(path, "").unwrap(),
        |path| {
            let text = fs::read_to_string(path).unwrap();
            let lines = text.lines().filter(|line| !line.starts_with("uid "));
            let text: String = lines.map(|line| format!("{line}\n")).collect();
            fs::write(path, text).unwrap();
        },
    ];
    for damage in damages {
        // Everything is allowed: to Android user 0, too.
        let mut setup = Setup::new(&at_level("full"));
        setup.reports(2);
        let number = setup.service.reports()[0]["report"].clone();
        let id = number.to_string();
        setup.service.kill();
        damage(&setup.service.path("store").join(format!("{id}.toml")));
        setup.service.start_again();
        let reports = setup.service.reports();
        assert!(reports.iter().all(|report| report["report"] != number));
        assert_eq!(reports.len(), 1);
        assert!(!setup
            .service
            .path("store")
            .join(format!("{id}.hindsight"))
            .exists());
        assert_ne!(setup.next().words[1], id);
        assert!(setup
            .service
            .log()
            .contains("nobody knows whose report it is"));
    }
}

#[test]
fn three_reports_a_week_leave_also_over_restarts() {
    let mut setup = Setup::new(&at_level("summary"));
    setup.reports(5);
    for _ in 0..3 {
        // An uploader that is killed asks again: the report counts once.
        setup.next();
        setup.service.kill();
        setup.service.start_again();
        setup.next();
        assert_eq!(setup.send().words[2], "text");
    }
    setup.assert_nothing("limit of uploads is reached");
    setup.service.kill();
    setup.service.start_again();
    setup.assert_nothing("limit of uploads is reached");
    // A lost list of limits admits nothing; a report that was admitted may leave.
    setup.service.kill();
    fs::write(setup.service.path("store").join("limits.state"), "").unwrap();
    setup.service.start_again();
    setup.assert_nothing("list of uploads was lost");
}

#[test]
fn the_reports_of_a_group_leave_as_one_upload() {
    let policy = at_level("summary").replace("[reports]", "[reports]\npeers = 1");
    let mut setup = Setup::new(&(policy + "[uploads]\ndevice = 1\n"));
    setup.reports(4);
    let reports = setup.service.reports();
    let id = |index: usize| reports[index]["report"].to_string();
    // The third and the fourth one are in the group of the first one.
    setup.service.kill();
    for index in [2, 3] {
        let path = setup
            .service
            .path("store")
            .join(format!("{}.toml", id(index)));
        let text = fs::read_to_string(&path).unwrap();
        let of_group = text.replace(
            &format!("group = {}\n", id(index)),
            &format!("group = {}\n", id(0)),
        );
        assert_ne!(of_group, text);
        fs::write(path, of_group).unwrap();
    }
    setup.service.start_again();
    for index in [0, 2] {
        // Asked for twice, in two services: it is one report of the upload.
        setup.next();
        setup.service.kill();
        setup.service.start_again();
        assert_eq!(setup.send().words[1], id(index));
    }
    setup.assert_nothing("limit of uploads is reached");
    let status = setup.service.status();
    assert_eq!(status["engine"]["limits"]["uploads"], 1, "{status}");
}

#[test]
fn a_lost_list_of_uploads_lets_nothing_leave_twice() {
    type Damage = fn(&std::path::Path);
    let damages: [Damage; 2] = [
        |path| fs::write(path, "?").unwrap(),
        |path| fs::remove_file(path).unwrap(),
    ];
    for damage in damages {
        let mut setup = Setup::new(&at_level("summary"));
        setup.reports(2);
        setup.send();
        setup.service.kill();
        damage(&setup.service.path("store").join("uploads.state"));
        setup.service.start_again();
        setup.assert_nothing("no report");
        assert!(setup.service.log().contains("the list of uploads"));
        setup.reports(1);
        assert_eq!(
            setup.send().words[1],
            setup.service.reports()[2]["report"].to_string()
        );
    }
}

#[test]
fn reports_of_a_service_that_never_uploaded_leave_after_a_restart() {
    let mut setup = Setup::new(&at_level("summary"));
    setup.reports(1);
    setup.service.kill();
    setup.service.start_again();
    assert_eq!(setup.next().words[0], "item");
}

#[test]
fn a_policy_selects_which_reports_leave() {
    let campaign = "[uploads]\nselect = \"campaign\"\ncampaign = [\"com.other\"]\n";
    let setup = Setup::new(&(at_level("signatures") + campaign));
    setup.reports(1);
    setup.assert_nothing("no report");
    let setup = Setup::new(&(at_level("signatures") + &campaign.replace("com.other", "app")));
    setup.reports(1);
    assert_eq!(setup.next().words[0], "item");
    let setup = Setup::new(&(at_level("signatures") + "[uploads]\nselect = \"severe\"\n"));
    setup.reports(1);
    assert_eq!(setup.next().words[0], "item");
    let setup = Setup::new(&(at_level("signatures") + "[uploads]\ndevice = 0\n"));
    setup.reports(1);
    setup.assert_nothing("limit of uploads is reached");
}

#[test]
fn the_uploaders_socket_serves_nothing_else() {
    let setup = Setup::new(&at_level("full"));
    setup.reports(1);
    for command in [
        "status",
        "reports",
        "get 1",
        "policy default",
        "consent show",
        "done x text",
        "done 1 all",
        "still 1",
        "still 1 all",
        "uploads allow 10",
        "wait soon",
        // Without --uploads-when allowed.
        "wait 0",
        "",
    ] {
        let (text, file) = setup.ask(command);
        assert!(text.starts_with("error "), "{command}: {text}");
        assert!(file.is_none());
    }
    assert_eq!(setup.service.reports().len(), 1);
    // Nor does the other socket hand out what may leave.
    assert!(setup.service.ask("next")[0].starts_with("error "));
}

#[test]
fn a_device_has_another_name_for_each_app() {
    use hindsight_service::upload::Device;
    let device = |secret: &str| Device {
        secret: secret.into(),
        ..Device::default()
    };
    let name = device("a").name_for(10_001);
    assert_eq!(name, device("a").name_for(10_001));
    assert_ne!(name, device("a").name_for(10_002));
    assert_ne!(name, device("b").name_for(10_001));
    assert_eq!(name.len(), 64);
}
