// SPDX-License-Identifier: Apache-2.0
//! What a session wants of the data source: its `DataSourceConfig`.

use crate::proto::Fields;

/// Longest text that is looked at, bytes.
const MAX_TEXT: usize = 4096;

/// The configuration of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The buffer of the session that packets belong to.
    pub buffer: u64,
    /// Names or ids of the processes; empty: all.
    pub processes: Vec<String>,
    /// Lines that make no sense, for the log.
    pub problems: Vec<String>,
}

impl Config {
    /// From the bytes of a `DataSourceConfig`. Its field `legacy_config` has settings, `NAME=VALUE` with blanks between them:
    /// `processes=com.example,1234`.
    pub fn parse(bytes: &[u8]) -> Self {
        let text = Fields::get(bytes, 1000).map_or(&[][..], |v| v.bytes());
        let text = String::from_utf8_lossy(&text[..text.len().min(MAX_TEXT)]);
        let mut config = Config {
            buffer: Fields::get(bytes, 2).map_or(0, |v| v.number()),
            ..Config::default()
        };
        for setting in text.split_whitespace() {
            match setting.split_once('=') {
                Some(("processes", names)) => {
                    let names = names.split(',').filter(|name| !name.is_empty());
                    config.processes.extend(names.map(str::to_owned));
                }
                _ => config.problems.push(format!(
                    "legacy_config: {setting:?} is no setting of dev.hindsight; known: processes=NAME,PID"
                )),
            }
        }
        config
    }

    /// Whether a process is wanted.
    pub fn wants(&self, name: &str, pid: u32) -> bool {
        let fits = |wanted: &String| wanted == name || wanted.parse() == Ok(pid);
        self.processes.is_empty() || self.processes.iter().any(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Message;

    #[test]
    fn settings_choose_processes_and_unknown_ones_are_told() {
        let mut message = Message::new();
        message
            .varint(2, 3)
            .string(1000, "processes=com.example,12\nring=8");
        let config = Config::parse(message.as_bytes());
        assert_eq!(config.buffer, 3);
        assert!(config.wants("com.example", 1) && config.wants("x", 12) && !config.wants("x", 1));
        assert_eq!(config.problems.len(), 1);
        assert!(Config::parse(&[0xff]).wants("x", 1));
    }
}
