// SPDX-License-Identifier: Apache-2.0
//! The dex files of an app: alone, or in an APK or jar.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use super::{Code, Dex, MethodName};

/// Largest size of a dex file, bytes.
const MAX_DEX: u64 = 256 << 20;
/// Most dex files of an archive.
const MAX_FILES: usize = 500;

/// Why an app's code cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct ArchiveError {
    path: PathBuf,
    why: String,
}

/// The dex files of one or more apps or libraries.
#[derive(Clone, Debug, Default)]
pub struct Archive {
    files: Vec<Dex>,
}

impl Archive {
    /// Adds the dex files of an APK or jar, or a single dex file.
    ///
    /// # Errors
    /// If the file cannot be read, or has none.
    pub fn add(&mut self, path: &Path) -> Result<(), ArchiveError> {
        let found = read(path).map_err(|why| ArchiveError {
            path: path.to_owned(),
            why,
        })?;
        self.files.extend(found);
        Ok(())
    }

    /// Adds a dex file.
    pub fn add_dex(&mut self, dex: Dex) {
        self.files.push(dex);
    }

    /// The code of a method, and the file that has it; the first one if several do.
    pub fn code(&self, method: &MethodName) -> Option<(&Dex, Code)> {
        let mut files = self.files.iter();
        files.find_map(|dex| Some((dex, dex.code(method)?)))
    }
}

fn read(path: &Path) -> Result<Vec<Dex>, String> {
    let mut file = File::open(path).map_err(|e| e.to_string())?;
    let mut magic = [0; 4];
    let is_dex = file.read_exact(&mut magic).is_ok() && &magic == b"dex\n";
    file.rewind().map_err(|e| e.to_string())?;
    if is_dex {
        return Ok(vec![dex(file)?]);
    }
    let mut archive = zip::ZipArchive::new(file)
        .map_err(|e| format!("neither a dex file nor an APK or jar ({e})"))?;
    let is_wanted = |name: &&str| name.starts_with("classes") && name.ends_with(".dex");
    let mut names: Vec<String> = (archive.file_names().filter(is_wanted))
        .take(MAX_FILES)
        .map(str::to_owned)
        .collect();
    // classes.dex, classes2.dex … classes10.dex.
    names.sort_by_key(|name| (name.len(), name.clone()));
    if names.is_empty() {
        return Err("it has no classes.dex: are its classes in another file?".into());
    }
    let mut files = Vec::new();
    for name in names {
        let entry = archive.by_name(&name).map_err(|e| format!("{name}: {e}"))?;
        files.push(dex(entry).map_err(|e| format!("{name}: {e}"))?);
    }
    Ok(files)
}

fn dex(file: impl Read) -> Result<Dex, String> {
    let mut bytes = Vec::new();
    let mut limited = file.take(MAX_DEX + 1);
    limited.read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() as u64 > MAX_DEX {
        return Err(format!("it has more than {MAX_DEX} bytes"));
    }
    Dex::new(bytes).ok_or_else(|| "no dex file".to_owned())
}
