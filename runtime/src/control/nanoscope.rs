// SPDX-License-Identifier: Apache-2.0
//! Nanoscope's two published interfaces for tracing.
//!
//! - The system property `dev.nanoscope`: `package:file` starts tracing the main thread of that app, an
//!   empty value stops it and writes the file.
//! - The name of a thread: `Thread.setName("START_TRACING")` starts tracing the thread,
//!   `"STOP_TRACING:/path"` stops it and writes the file. The thread is not renamed.

use std::path::{Component, Path};

use crate::command::NanoscopeCommand;

/// The name of the property.
pub(crate) const PROPERTY: &str = "dev.nanoscope";

const START: &str = "START_TRACING";
const STOP: &str = "STOP_TRACING:";

/// The command in a thread's new name; `None` if it is just a name, as `STOP_TRACING:` without an absolute path is.
pub fn thread_name_command(name: &str) -> Option<NanoscopeCommand> {
    if name == START {
        return Some(NanoscopeCommand::Start);
    }
    let path = Path::new(name.strip_prefix(STOP)?);
    path.is_absolute()
        .then(|| NanoscopeCommand::Stop(path.to_owned()))
}

/// Follows the property's values, for one app.
#[derive(Clone, Debug, Default)]
pub(crate) struct Property {
    /// The requested file; `None` while not tracing.
    file: Option<String>,
    /// The value, if it is for another app.
    for_another: Option<String>,
}

impl Property {
    /// The property has a new value. Returns the command for the main thread of the app `package`; `None` if there is
    /// none, because the value is for another app, or has not changed.
    ///
    /// # Errors
    /// If the value cannot be understood. It then changes nothing.
    pub(crate) fn changed(
        &mut self,
        value: &str,
        package: &str,
        directory: &Path,
    ) -> Result<Option<NanoscopeCommand>, String> {
        self.for_another = None;
        if value.is_empty() {
            return Ok(self
                .file
                .take()
                .map(|file| NanoscopeCommand::Stop(directory.join(file))));
        }
        let (wanted, file) = value
            .split_once(':')
            .filter(|(wanted, file)| !wanted.is_empty() && is_file_name(file))
            .ok_or_else(|| {
                format!("'{value}' is no value for {PROPERTY}: it takes package:file, or nothing")
            })?;
        // Nanoscope traces one app at a time, and a value for another app does not stop this one.
        if wanted != package {
            self.for_another = Some(value.to_owned());
            return Ok(None);
        }
        if self.file.is_some() {
            return Ok(None);
        }
        self.file = Some(file.to_owned());
        Ok(Some(NanoscopeCommand::Start))
    }

    /// The value that was for another app: a process that has just been forked learns its package's name later, and may
    /// then take the value for its own.
    pub(crate) fn for_another(&self) -> Option<String> {
        self.for_another.clone()
    }
}

/// Whether this is a plain file name, without a folder.
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
        assert_eq!(
            thread_name_command("START_TRACING"),
            Some(NanoscopeCommand::Start)
        );
        assert_eq!(
            thread_name_command("STOP_TRACING:/sdcard/out.txt"),
            Some(NanoscopeCommand::Stop("/sdcard/out.txt".into()))
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
    fn the_property_starts_the_app_that_it_names_and_an_empty_value_stops_it() {
        let mut property = Property::default();
        let mut changed = |value| property.changed(value, "com.example", Path::new("/files"));
        assert_eq!(changed(""), Ok(None), "nothing to stop");
        assert_eq!(changed("com.other:out.txt"), Ok(None));
        assert_eq!(changed(""), Ok(None));
        assert_eq!(
            changed("com.example:out.txt"),
            Ok(Some(NanoscopeCommand::Start))
        );
        assert_eq!(changed("com.example:out.txt"), Ok(None), "set again");
        assert_eq!(
            changed(""),
            Ok(Some(NanoscopeCommand::Stop("/files/out.txt".into())))
        );
        assert_eq!(changed(""), Ok(None));
        assert_eq!(changed("com.example:2"), Ok(Some(NanoscopeCommand::Start)));
    }

    #[test]
    fn a_value_for_another_app_is_kept_until_the_next_one() {
        let mut property = Property::default();
        let folder = Path::new("/files");
        let set = |property: &mut Property, value, package| {
            let command = property.changed(value, package, folder).unwrap();
            (command, property.for_another())
        };
        let value = "com.example:out.txt";
        let kept = Some(value.to_owned());
        assert_eq!(set(&mut property, value, "zygote64"), (None, kept.clone()));
        let start = Some(NanoscopeCommand::Start);
        assert_eq!(set(&mut property, value, "com.example"), (start, None));
        assert_eq!(set(&mut property, value, "com.other"), (None, kept));
        let stop = Some(NanoscopeCommand::Stop("/files/out.txt".into()));
        assert_eq!(set(&mut property, "", "com.example"), (stop, None));
    }

    #[test]
    fn malformed_values_change_nothing() {
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
