// SPDX-License-Identifier: Apache-2.0
//! Downloads the pinned packages and verifies them.

use super::apt::{is_gone, Apt};
use super::manifest::{Kind, Manifest, Package, PinnedFile};
use crate::error::{Error, Result};
use crate::layout::Folders;
use crate::lock::Lock;
use crate::progress::Progress;
use crate::run::Lab;
use crate::spec::Release;
use crate::util::{create_dir, remove, run, sha256_file, write_atomic};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The verified files of one package.
#[derive(Clone, Debug)]
pub(crate) struct Fetched {
    /// The upstream tarball, or the binary package.
    pub(crate) main: PathBuf,
    /// Debian's changes, if the package has any.
    pub(crate) debian: Option<PathBuf>,
    /// The checksums of the files.
    pub(crate) identity: String,
    /// Whether the checksum is the pinned one; if not, the unpacked files are checked.
    pub(crate) pinned: bool,
}

/// Downloads the missing packages. A file is verified after its download, and again only when its size or time has
/// changed.
pub(crate) fn fetch_all(
    folders: &Folders,
    manifest: &Manifest,
    progress: &Progress,
) -> Result<Vec<(String, Fetched)>> {
    let dir = folders.downloads();
    create_dir(&dir)?;
    let others: Vec<PathBuf> = Release::ALL
        .into_iter()
        .map(|release| Folders::new(release).map(|folders| folders.downloads()))
        .collect::<Result<_>>()?;
    let mut apt = None;
    let mut all = Vec::new();
    for package in &manifest.packages {
        borrow(package, &dir, &others)?;
        let fetched = match find(package, &dir)? {
            Some(fetched) => fetched,
            None => {
                if apt.is_none() {
                    progress.message("package lists");
                    let private = Apt::new(&folders.release.join("apt"), &manifest.suites)?;
                    private.update()?;
                    apt = Some(private);
                }
                progress.message(&package.name);
                download(package, apt.as_ref().expect("made above"), &dir)?
            }
        };
        all.push((package.folder.clone(), fetched));
    }
    Ok(all)
}

impl Lab {
    /// Downloads the binary packages of a further manifest (`sources.toml` in the folder `data`), and unpacks them into
    /// `target`, one folder for each. Nothing is installed.
    ///
    /// # Errors
    /// If the archive can't be reached or has none of the pinned versions, or a checksum is wrong.
    pub fn unpack_binaries(&self, data: &Path, target: &Path) -> Result<()> {
        let manifest = Manifest::load(data)?;
        let _lock = Lock::take(&self.folders.release)?;
        let progress = Progress::new();
        let fetched = fetch_all(&self.folders, &manifest, &progress);
        let fetched =
            fetched.map_err(|error| without(&manifest, &self.folders.downloads(), error))?;
        for (folder, package) in fetched {
            let target = target.join(folder);
            let stamp = target.join("package");
            if std::fs::read_to_string(&stamp).is_ok_and(|old| old == package.identity) {
                continue;
            }
            remove(&target)?;
            create_dir(&target)?;
            let mut command = Command::new("dpkg-deb");
            command.arg("-x").arg(&package.main).arg(&target);
            run(command, &format!("unpacking {}", package.main.display()))?;
            // Written last: the folder is complete.
            write_atomic(&stamp, package.identity.as_bytes())?;
        }
        progress.finish();
        Ok(())
    }
}

/// Why binary packages could not be downloaded, with those that are missing, and how to do without a network.
fn without(manifest: &Manifest, downloads: &Path, error: Error) -> Error {
    let is_there = |package: &&Package| matches!(find(package, downloads), Ok(Some(_)));
    let missing = manifest.packages.iter().filter(|p| !is_there(p));
    let missing =
        missing.filter_map(|p| Some(format!("{}={}", p.name, p.versions.first()?.version)));
    let missing = missing.collect::<Vec<_>>().join(" ");
    match missing.as_str() {
        "" => error,
        missing => Error::Other(format!(
            "{error}\nMissing: {missing}\nWithout a network: run `apt-get download {missing}` where there is one, and copy the files to {}",
            downloads.display()
        )),
    }
}

/// Links the package's files from the downloads of another release, since releases share some packages.
fn borrow(package: &Package, dir: &Path, others: &[PathBuf]) -> Result<()> {
    for file in package.versions.iter().flat_map(|version| &version.files) {
        let to = dir.join(&file.name);
        if to.exists() {
            continue;
        }
        for other in others {
            let from = other.join(&file.name);
            // A file of the same name in another release may have other contents.
            if from.exists() && sha256_file(&from)? == file.sha256 {
                // Where links are not possible, apt downloads.
                let _ = std::fs::hard_link(&from, &to);
                break;
            }
        }
    }
    Ok(())
}

/// The package's files if all of one version are in `dir`.
fn find(package: &Package, dir: &Path) -> Result<Option<Fetched>> {
    for version in &package.versions {
        if version
            .files
            .iter()
            .all(|file| dir.join(&file.name).exists())
        {
            for file in &version.files {
                verify(dir, file)?;
            }
            return Ok(Some(fetched(dir, &version.files)));
        }
    }
    // The file of another version, noted when it was downloaded.
    let note = other_version_note(package, dir);
    if let Ok(name) = std::fs::read_to_string(&note) {
        let main = dir.join(name.trim());
        if main.exists() {
            return Ok(Some(other(main)?));
        }
    }
    Ok(None)
}

fn other_version_note(package: &Package, dir: &Path) -> PathBuf {
    dir.join(format!("{}.version", package.name))
}

fn other(main: PathBuf) -> Result<Fetched> {
    let identity = sha256_file(&main)?;
    Ok(Fetched {
        main,
        debian: None,
        identity,
        pinned: false,
    })
}

fn fetched(dir: &Path, files: &[PinnedFile]) -> Fetched {
    let path = |wanted: &dyn Fn(&PinnedFile) -> bool| {
        files
            .iter()
            .find(|file| wanted(file))
            .map(|file| dir.join(&file.name))
    };
    Fetched {
        main: path(&PinnedFile::is_main).expect("every version has a main file"),
        debian: path(&|file| file.name.contains(".debian.tar")),
        identity: files
            .iter()
            .map(|file| file.sha256.as_str())
            .collect::<Vec<_>>()
            .join(" "),
        pinned: true,
    }
}

fn download(package: &Package, apt: &Apt, dir: &Path) -> Result<Fetched> {
    let mut gone = None;
    for version in &package.versions {
        let result = match package.kind {
            Kind::Source => apt.source(&package.name, &version.version, false, dir),
            Kind::Tarball => apt.source(&package.name, &version.version, true, dir),
            Kind::Binary => apt.binary(&package.name, &version.version, dir),
        };
        match result {
            Ok(()) => {}
            Err(error) if is_gone(&error) => {
                gone = Some(error);
                continue;
            }
            Err(error) => return Err(error),
        }
        for file in &version.files {
            verify(dir, file)?;
        }
        return Ok(fetched(dir, &version.files));
    }
    if let Some(prefix) = &package.any_version {
        for version in apt.source_versions(&package.name)? {
            if version.starts_with(prefix.as_str()) {
                return download_other(package, &version, apt, dir);
            }
        }
    }
    let versions: Vec<&str> = package
        .versions
        .iter()
        .map(|v| v.version.as_str())
        .collect();
    Err(Error::Other(format!(
        "Debian's archive has {} in none of the pinned versions ({}){}",
        package.name,
        versions.join(", "),
        gone.map(|error| format!(":\n{error}")).unwrap_or_default(),
    )))
}

fn download_other(package: &Package, version: &str, apt: &Apt, dir: &Path) -> Result<Fetched> {
    let work = tempfile::tempdir_in(dir).map_err(|source| Error::Io {
        what: "make a folder in",
        path: dir.to_owned(),
        source,
    })?;
    apt.source(&package.name, version, true, work.path())?;
    let mut main = None;
    for entry in walkdir::WalkDir::new(work.path())
        .max_depth(1)
        .into_iter()
        .flatten()
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        // Component tarballs are called .orig-NAME.tar.
        if name.contains(".orig.tar") && !name.ends_with(".asc") {
            main = Some(name);
        }
    }
    let Some(name) = main else {
        return Err(Error::Other(format!(
            "{} {version} has no upstream tarball",
            package.name
        )));
    };
    let to = dir.join(&name);
    std::fs::rename(work.path().join(&name), &to).map_err(|source| Error::Io {
        what: "write",
        path: to.clone(),
        source,
    })?;
    write_atomic(&other_version_note(package, dir), name.as_bytes())?;
    other(to)
}

/// Errors, and removes the file, if its checksum is not the pinned one.
pub(crate) fn verify(dir: &Path, file: &PinnedFile) -> Result<()> {
    let path = dir.join(&file.name);
    if !path.exists() {
        return Err(Error::Other(format!(
            "apt has not downloaded {}, which sources.toml lists",
            file.name
        )));
    }
    // A note beside the file saves hashing 170 MB at every build.
    let note = dir.join(format!(".{}.verified", file.name));
    let state = file_state(&path)?;
    let text = format!("{} {state}", file.sha256);
    if std::fs::read_to_string(&note).is_ok_and(|old| old == text) {
        return Ok(());
    }
    let got = sha256_file(&path)?;
    if got != file.sha256 {
        remove(&path)?;
        remove(&note)?;
        return Err(Error::Checksum {
            path,
            expected: file.sha256.clone(),
            got,
        });
    }
    write_atomic(&note, text.as_bytes())
}

fn file_state(path: &Path) -> Result<String> {
    use std::os::unix::fs::MetadataExt;
    let data = std::fs::metadata(path).map_err(|source| Error::Io {
        what: "look at",
        path: path.to_owned(),
        source,
    })?;
    Ok(format!(
        "{} {}.{}",
        data.len(),
        data.mtime(),
        data.mtime_nsec()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::hex;
    use sha2::{Digest, Sha256};

    #[test]
    fn a_file_that_changed_is_found_named_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.orig.tar.xz");
        std::fs::write(&path, "right").unwrap();
        let sha256 = hex(&Sha256::digest("right"));
        let file = PinnedFile {
            name: "x.orig.tar.xz".into(),
            sha256: sha256.clone(),
        };
        verify(dir.path(), &file).unwrap();
        verify(dir.path(), &file).unwrap();

        std::fs::write(&path, "wrong!").unwrap();
        let message = verify(dir.path(), &file).unwrap_err().to_string();
        assert!(message.contains(&path.display().to_string()), "{message}");
        assert!(message.contains(&sha256) && message.contains(&hex(&Sha256::digest("wrong!"))));
        assert!(!path.exists());
    }

    #[test]
    fn without_a_network_the_message_names_what_is_missing_and_where_it_goes() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a_1.deb"), "a").unwrap();
        let package = |name: &str, sha256: &str| {
            format!(
                "[[package]]\nfolder = \"{name}\"\nname = \"lib{name}\"\nkind = \"binary\"\n[[package.version]]\nversion = \"1\"\n\
                 [[package.version.file]]\nname = \"{name}_1.deb\"\nsha256 = \"{sha256}\"\n"
            )
        };
        let there = package("a", &hex(&Sha256::digest("a")));
        let text = format!("suites = []\n{there}{}", package("b", "0"));
        let manifest: Manifest = toml::from_str(&text).unwrap();
        let no_network = || Error::Other("Debian's archive can't be reached".into());
        let message = without(&manifest, dir.path(), no_network()).to_string();
        assert!(
            message.starts_with("Debian's archive can't be reached"),
            "{message}"
        );
        assert!(message.contains("\nMissing: libb=1\n"), "{message}");
        assert!(message.contains("apt-get download libb=1`"), "{message}");
        assert!(
            message.ends_with(&dir.path().display().to_string()),
            "{message}"
        );
        // If nothing is missing, the error is about something else.
        let manifest: Manifest = toml::from_str(&format!("suites = []\n{there}")).unwrap();
        let message = without(&manifest, dir.path(), no_network()).to_string();
        assert_eq!(message, no_network().to_string());
    }

    #[test]
    fn files_of_another_release_are_shared_if_they_are_the_pinned_ones() {
        let dir = tempfile::tempdir().unwrap();
        let (wrong, right, own) = (
            dir.path().join("a"),
            dir.path().join("b"),
            dir.path().join("c"),
        );
        for (folder, text) in [(&wrong, "another"), (&right, "right")] {
            create_dir(folder).unwrap();
            std::fs::write(folder.join("x.orig.tar.xz"), text).unwrap();
        }
        create_dir(&own).unwrap();
        let text = format!(
            "suites = []\n[[package]]\nfolder = \"x\"\nname = \"x\"\nkind = \"tarball\"\n\
             [[package.version]]\nversion = \"1\"\n\
             [[package.version.file]]\nname = \"x.orig.tar.xz\"\nsha256 = \"{}\"\n",
            hex(&Sha256::digest("right"))
        );
        let manifest: Manifest = toml::from_str(&text).unwrap();
        let package = manifest.package("x").unwrap();
        borrow(package, &own, std::slice::from_ref(&wrong)).unwrap();
        assert!(find(package, &own).unwrap().is_none());
        borrow(package, &own, &[wrong, right]).unwrap();
        assert!(find(package, &own).unwrap().is_some());
    }

    /// A point release that the archive has replaced, as will happen to the pinned one.
    #[test]
    #[ignore = "downloads 64 MB from Debian's archive"]
    fn a_vanished_point_release_is_replaced_by_one_with_the_same_files() {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("android-10");
        let mut manifest = Manifest::load(&data).unwrap();
        let package = manifest
            .packages
            .iter_mut()
            .find(|package| package.folder == "fdlibm")
            .unwrap();
        package.versions[0].version = "17.0.1+12-1".to_owned();
        package.versions[0].files[0].name = "openjdk-17_17.0.1+12.orig.tar.xz".to_owned();
        let dir = tempfile::tempdir().unwrap();
        let apt = Apt::new(&dir.path().join("apt"), &manifest.suites).unwrap();
        apt.update().unwrap();
        let downloads = dir.path().join("downloads");
        create_dir(&downloads).unwrap();
        let package = manifest.package("fdlibm").unwrap();
        let fetched = download(package, &apt, &downloads).unwrap();
        assert!(!fetched.pinned);
        // Found again without the network, and accepted because its files are the pinned ones.
        let again = find(package, &downloads).unwrap().unwrap();
        assert_eq!(again.main, fetched.main);
        let tree = crate::build::source::Tree {
            package,
            fetched: &again,
            patches: Vec::new(),
            target: dir.path().join("src/fdlibm"),
        };
        assert!(tree.update(&Progress::new()).unwrap());
        assert!(!tree.update(&Progress::new()).unwrap());
    }
}
