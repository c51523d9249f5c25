// SPDX-License-Identifier: Apache-2.0
//! The two ways in which Nanoscope is told to trace, as published.
//!
//! - The system property `dev.nanoscope`: `package:file` starts tracing the main thread of that app, an
//!   empty value stops it and writes the file.
//! - The name of a thread: `Thread.setName("START_TRACING")` starts tracing the thread,
//!   `"STOP_TRACING:/path"` stops it and writes the file. The thread is not renamed.

use std::path::{Component, Path, PathBuf};

/// The name of the property.
pub const PROPERTY: &str = "dev.nanoscope";

const START: &str = "START_TRACING";
const STOP: &str = "STOP_TRACING:";

/// What is wanted of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Trace it.
    Start,
    /// Trace it no more, and write what was traced to this file.
    Stop(PathBuf),
}

/// What a thread's new name asks for; `None` if it is just a name.
///
/// `STOP_TRACING:` without an absolute path is just a name, too.
pub fn thread_name_command(name: &str) -> Option<Command> {
    if name == START {
        return Some(Command::Start);
    }
    let path = Path::new(name.strip_prefix(STOP)?);
    path.is_absolute().then(|| Command::Stop(path.to_owned()))
}

/// Follows the property's values, for one app.
#[derive(Clone, Debug, Default)]
pub struct Property {
    /// The file that was asked for; `None` while not tracing.
    file: Option<String>,
}

impl Property {
    /// The property has this value now. What that asks of the main thread of the app `package`; `None` if
    /// nothing, as when it is about another app, or nothing has changed.
    ///
    /// # Errors
    /// A value that cannot be understood; it changes nothing.
    pub fn changed(
        &mut self,
        value: &str,
        package: &str,
        directory: &Path,
    ) -> Result<Option<Command>, String> {
        if value.is_empty() {
            return Ok(self
                .file
                .take()
                .map(|file| Command::Stop(directory.join(file))));
        }
        let (wanted, file) = value
            .split_once(':')
            .filter(|(wanted, file)| !wanted.is_empty() && is_file_name(file))
            .ok_or_else(|| {
                format!("'{value}' is no value for {PROPERTY}: it takes package:file, or nothing")
            })?;
        // Another app's turn: Nanoscope traces one at a time, and has not been told to stop ours.
        if wanted != package || self.file.is_some() {
            return Ok(None);
        }
        self.file = Some(file.to_owned());
        Ok(Some(Command::Start))
    }
}

/// Whether this names a file in a folder, rather than one elsewhere.
fn is_file_name(file: &str) -> bool {
    let mut components = Path::new(file).components();
    matches!(
        (components.next(), components.next()),
        (Some(Component::Normal(name)), None) if name == file
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_commands_and_names_that_are_names() {
        assert_eq!(thread_name_command("START_TRACING"), Some(Command::Start));
        assert_eq!(
            thread_name_command("STOP_TRACING:/sdcard/out.txt"),
            Some(Command::Stop("/sdcard/out.txt".into()))
        );
        for name in [
            "",
            "main",
            "START_TRACING ",
            "START_TRACING:/x",
            "STOP_TRACING",
            "STOP_TRACING:",
            "STOP_TRACING:out.txt",
            " STOP_TRACING:/x",
        ] {
            assert_eq!(thread_name_command(name), None, "{name:?}");
        }
    }

    #[test]
    fn the_property_starts_the_app_it_names_and_nothing_stops_it() {
        let mut property = Property::default();
        let mut changed = |value| property.changed(value, "com.example", Path::new("/files"));
        assert_eq!(changed(""), Ok(None), "nothing to stop");
        assert_eq!(changed("com.other:out.txt"), Ok(None));
        assert_eq!(changed(""), Ok(None));
        assert_eq!(changed("com.example:out.txt"), Ok(Some(Command::Start)));
        assert_eq!(changed("com.example:out.txt"), Ok(None), "set again");
        assert_eq!(
            changed(""),
            Ok(Some(Command::Stop("/files/out.txt".into())))
        );
        assert_eq!(changed(""), Ok(None));
        assert_eq!(changed("com.example:2"), Ok(Some(Command::Start)));
    }

    #[test]
    fn values_that_make_no_sense_change_nothing() {
        let mut property = Property::default();
        let directory = Path::new("/files");
        for value in [
            "com.example",
            ":out.txt",
            "com.example:",
            "com.example:/etc/passwd",
            "com.example:../out",
            "com.example:a/b",
            "com.example:..",
            "com.example:a/",
        ] {
            let error = property.changed(value, "com.example", directory);
            assert!(error.unwrap_err().contains("package:file"), "{value}");
        }
        assert_eq!(property.changed("", "com.example", directory), Ok(None));
    }
}
