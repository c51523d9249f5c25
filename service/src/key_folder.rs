// SPDX-License-Identifier: Apache-2.0
//! The folder with the keys of those who may sign policies.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use crate::policy::{Keys, KEY_SUFFIX};

/// Longest file, bytes.
const MAX_BYTES: u64 = 4096;
/// The most files that are looked at.
const MAX_FILES: usize = 256;

/// The keys, and lines for the log. A file that is no key is left out, so that fewer policies are taken; without a folder there is no key.
pub(crate) fn read(folder: &Path) -> (Keys, Vec<String>) {
    let mut keys = Keys::default();
    let mut log = Vec::new();
    match files(folder) {
        Ok(names) => {
            for name in names {
                let path = folder.join(&name);
                let text = read_file(&path).map_err(|e| e.to_string());
                if let Err(why) = text.and_then(|text| keys.add(&name, &text)) {
                    log.push(format!("the key {} is not used: {why}", path.display()));
                }
            }
        }
        Err(e) => log.push(format!(
            "no signed policy is taken, as the keys in {} cannot be read: {e}",
            folder.display()
        )),
    }
    (keys, log)
}

/// The names of the files, in their order, so that the same keys are used after each start.
fn files(folder: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(folder)?.take(MAX_FILES);
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.collect::<io::Result<_>>()?;
    names.retain(|name| name.ends_with(KEY_SUFFIX));
    names.sort();
    Ok(names)
}

fn read_file(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_key_is_left_out_and_said() {
        let folder = tempfile::tempdir().unwrap();
        let key = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAgO28JwQ79cBQPxbALHYrhC12oLDUHPfe47y+azbQSG8=\n-----END PUBLIC KEY-----\n";
        for (name, contents) in [
            ("b.pem", key.as_bytes()),
            ("a.pem", key.as_bytes()),
            ("c.pem", b"nonsense"),
            ("d.pem", b"\xff"),
            ("README", b"no key"),
        ] {
            fs::write(folder.path().join(name), contents).unwrap();
        }
        let long = format!("{key}{}", " ".repeat(1 << 16));
        fs::write(folder.path().join("long.pem"), long).unwrap();
        fs::create_dir(folder.path().join("e.pem")).unwrap();
        let (keys, log) = read(folder.path());
        assert_eq!(keys.names().collect::<Vec<_>>(), ["a", "b", "long"]);
        assert_eq!(log.len(), 3, "{log:?}");
        assert!(
            log[0].contains("c.pem is not used: it is no public"),
            "{log:?}"
        );
        let (keys, log) = read(&folder.path().join("none"));
        assert_eq!((keys.names().count(), log.len()), (0, 1));
    }
}
