// SPDX-License-Identifier: Apache-2.0
//! `hindsight convert --consent`: no byte of a string that needs more consent is in the file.

use std::collections::BTreeSet;

use assert_cmd::Command;
use hindsight_decoder::{Consent, Extension, StringKind, Trace};
use hindsight_testkit::Script;
use proptest::prelude::*;

/// Strings that no placeholder or name of a platform contains.
fn secret() -> impl Strategy<Value = String> {
    "[qxzQXZ]{4}[a-z0-9 é]{0,12}"
}

#[derive(Clone, Debug)]
struct Secrets {
    app: Vec<String>,
    texts: Vec<String>,
}

fn secrets() -> impl Strategy<Value = Secrets> {
    let some = || prop::collection::vec(secret(), 1..5);
    (some(), some()).prop_map(|(app, texts)| Secrets { app, texts })
}

/// A trace with each string in all places where such a string can be.
fn script(secrets: &Secrets) -> Script {
    let process = &secrets.app[0];
    let mut s = Script::new(&format!("com.{process}"));
    s.process.reason = secrets.texts[0].clone();
    let path = (
        secrets.texts[0].clone(),
        format!("/data/{}", secrets.texts[0]),
    );
    s.process.extra.push(path);
    s.losses
        .counts
        .push((format!("damaged: thread {}", secrets.texts[0]), 1));
    let looper = s.method("android.os.Looper.loop", "()V");
    let mut methods = vec![looper];
    for name in &secrets.app {
        let signature = format!("(L{name}/A;I)V");
        methods.push(s.method(&format!("{name}.Class{name}.{name}"), &signature));
        methods.push(s.method("android.app.Activity.run", &signature));
    }
    for (i, text) in secrets.texts.iter().enumerate() {
        let thread = match i % 2 {
            0 => s.thread(i as u32, text),
            _ => s.events_thread(i as u32, text, i as u64),
        };
        let mark = s.string(text);
        let frames: Vec<_> = methods.iter().map(|&m| (m, 1)).collect();
        let stack = s.stack(&frames);
        let mut r = s.at(thread, 100);
        r.event(Extension::UserMark, &[("name", mark)])
            .event(Extension::TaskBegin, &[("class", methods[1])])
            .extension(Extension::Stack, &stack);
        if i % 2 == 0 {
            for &method in &methods {
                r.after(10).call(method, 10);
            }
        }
    }
    s
}

fn converted(whole: &Trace, consent: Consent) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("part.hindsight");
    let trace = whole.clone().limited_to(consent);
    hindsight_export::write_file(&trace, hindsight_export::Format::Hindsight, &file).unwrap();
    std::fs::read(&file).unwrap()
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|w| w == text.as_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn nothing_of_a_removed_string_is_in_the_file(secrets in secrets()) {
        let whole = Trace::decode("t".as_ref(), &script(&secrets).encode()).unwrap();
        let all: BTreeSet<&String> = secrets.app.iter().chain(&secrets.texts).collect();
        let structure = converted(&whole, Consent::Structure);
        for text in &all {
            prop_assert!(!contains(&structure, text), "{text}");
        }
        prop_assert!(contains(&structure, "android.os.Looper"));
        let names = converted(&whole, Consent::Names);
        // Names lie side by side in the file, and two of them may make a text.
        let both = |a: &String| secrets.app.iter().map(move |b| format!("{a}{b}")).collect::<Vec<_>>();
        let names_of_app: Vec<String> = secrets.app.iter().flat_map(both).collect();
        for text in secrets.texts.iter().filter(|t| !names_of_app.iter().any(|a| a.contains(*t))) {
            prop_assert!(!contains(&names, text), "{text}");
        }
        // The test can fail.
        let content = converted(&whole, Consent::Content);
        for text in &all {
            prop_assert!(contains(&content, text), "{text}");
        }
        // The numbers are as they were.
        let part = Trace::decode("t".as_ref(), &structure).unwrap();
        for (a, b) in part.threads.iter().zip(&whole.threads) {
            prop_assert_eq!(&a.calls.start_ns, &b.calls.start_ns);
            prop_assert_eq!(&a.calls.depth, &b.calls.depth);
            prop_assert_eq!(a.events.len(), b.events.len());
        }
    }
}

#[test]
fn the_option_takes_levels_and_info_shows_the_one_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let hindsight = |arguments: &[&str]| {
        let mut command = Command::cargo_bin("hindsight").unwrap();
        command.current_dir(folder.path()).args(arguments).assert()
    };
    hindsight_testkit::stall()
        .write(&folder.path().join("t.hindsight"))
        .unwrap();
    for output in ["part.hindsight", "part.chrome.json"] {
        hindsight(&["convert", "t.hindsight", output, "--consent", "structure"]).success();
        let bytes = std::fs::read(folder.path().join(output)).unwrap();
        assert!(!contains(&bytes, "notes"), "{output}");
        assert!(contains(&bytes, "java.lang.Thread"), "{output}");
    }
    let info = hindsight(&["info", "part.hindsight"]).success();
    let info = String::from_utf8(info.get_output().stdout.clone()).unwrap();
    assert!(info.contains("consent      "), "{info}");
    let wrong = hindsight(&["convert", "t.hindsight", "x.hindsight", "--consent", "all"]).failure();
    let wrong = String::from_utf8(wrong.get_output().stderr.clone()).unwrap();
    assert!(wrong.contains("structure, names, content"), "{wrong}");
}

#[test]
fn the_documentation_has_each_kind_with_its_level() {
    let docs = std::path::Path::new(env!("HINDSIGHT_CHECKOUT")).join("docs/trace-format.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    for kind in StringKind::ALL {
        let row = format!("| {} | `{}` |", kind.name(), kind.level().name());
        assert!(docs.contains(&row), "{row}");
    }
}
