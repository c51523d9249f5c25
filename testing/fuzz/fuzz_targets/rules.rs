// SPDX-License-Identifier: Apache-2.0
//! Rules files, which name methods and fields of the traced program.

#![no_main]

use hindsight_runtime::rules::{parse, Target, MAX_RULES};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    match parse(&text) {
        Ok(rules) => {
            assert!(rules.len() <= MAX_RULES);
            for (i, rule) in rules.iter().enumerate() {
                assert!(rule.class.starts_with('L') && rule.class.ends_with(';'));
                assert!(!rule.member.is_empty() && !rule.name.is_empty());
                assert!(rules[..i].iter().all(|r| r.name != rule.name && r.line < rule.line));
                if let Target::Method {
                    parameters: Some(parameters),
                    ..
                } = &rule.target
                {
                    assert!(parameters.starts_with('(') && parameters.ends_with(')'));
                    assert!(parameters.len() <= 2 * text.len());
                }
            }
        }
        Err(message) => {
            let (line, _) = message.split_once(": ").expect("the line's number");
            assert!(line.parse::<usize>().is_ok_and(|line| line > 0));
        }
    }
});
