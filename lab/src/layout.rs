// SPDX-License-Identifier: Apache-2.0
//! The folders of builds, in the cache and in the checkout.

use crate::error::{Error, Result};
use crate::spec::{Isa, Release, Spec, Variant};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Debian's ASM, a library for class files.
pub(crate) const ASM: &str = "/usr/share/java/asm-all.jar";

/// dx, relative to a folder that has the sources in `src/`.
pub(crate) const DX: &str = "src/dx/usr/share/java/com.android.dx-10.0.0.jar";

/// The classes of libcore, relative to the Java folder: with [`ICU_CLASSES`], javac's `-bootclasspath`.
pub(crate) const CORE_CLASSES: &str = "out/core-classes.jar";

/// The classes of ICU4J under Android's package names, relative to the Java folder.
pub(crate) const ICU_CLASSES: &str = "out/icu-android.jar";

/// The lab's Java tools, relative to the Java folder.
pub(crate) const TOOLS_JAR: &str = "out/lab-tools.jar";

/// javac flags: Java 8 class files without the factories that Android lacks.
pub(crate) const JAVAC_FLAGS: [&str; 9] = [
    "-nowarn",
    "-g",
    "-encoding",
    "UTF-8",
    "-source",
    "8",
    "-target",
    "8",
    "-XDstringConcat=inline",
];

/// The folder of all caches: `$HINDSIGHT_CACHE`, or `~/.cache/hindsight`.
///
/// # Errors
/// If neither `HINDSIGHT_CACHE` nor `HOME` is set, or the folder can't be made.
pub fn cache_dir() -> Result<PathBuf> {
    let dir = match std::env::var_os("HINDSIGHT_CACHE") {
        Some(dir) if !dir.is_empty() => PathBuf::from(dir),
        _ => match std::env::var_os("HOME") {
            Some(home) if !home.is_empty() => Path::new(&home).join(".cache/hindsight"),
            _ => {
                return Err(Error::Other(
                    "set HINDSIGHT_CACHE: there is no HOME".to_owned(),
                ))
            }
        },
    };
    crate::util::create_dir(&dir)?;
    std::fs::canonicalize(&dir).map_err(|source| Error::Io {
        what: "find",
        path: dir,
        source,
    })
}

/// The folder of the checkout that the program was compiled in: where the patches, the Java tools and `art-hooks` are.
///
/// # Errors
/// If it is not there any more.
pub fn checkout_dir() -> Result<PathBuf> {
    let dir = PathBuf::from(env!("HINDSIGHT_CHECKOUT"));
    std::fs::canonicalize(&dir).map_err(|source| Error::Io {
        what: "find",
        path: dir,
        source,
    })
}

/// The folders of one release in the cache.
#[derive(Clone, Debug)]
pub(crate) struct Folders {
    /// How the release is built.
    pub(crate) spec: &'static Spec,
    /// `$HINDSIGHT_CACHE`
    pub(crate) cache: PathBuf,
    /// `$HINDSIGHT_CACHE/lab/<release>`
    pub(crate) release: PathBuf,
    /// The checkout.
    pub(crate) checkout: PathBuf,
    /// The release's folder in the checkout, `lab/<release>`.
    pub(crate) data: PathBuf,
}

impl Folders {
    pub(crate) fn new(release: Release) -> Result<Folders> {
        let cache = cache_dir()?;
        let checkout = checkout_dir()?;
        Ok(Folders {
            spec: release.spec(),
            release: cache.join("lab").join(release.name()),
            data: checkout.join("lab").join(release.name()),
            cache,
            checkout,
        })
    }

    /// Downloaded packages.
    pub(crate) fn downloads(&self) -> PathBuf {
        self.release.join("downloads")
    }

    /// Sources that both variants share.
    pub(crate) fn shared_sources(&self) -> PathBuf {
        self.release.join("src")
    }

    /// The Java part, which both variants share.
    pub(crate) fn java(&self) -> PathBuf {
        self.release.join("java")
    }

    /// The libraries and headers of another architecture.
    pub(crate) fn sysroot(&self, isa: Isa) -> PathBuf {
        self.release.join("sysroots").join(isa.name())
    }

    /// Debian's Rust with the standard libraries of the other architectures.
    pub(crate) fn rust(&self) -> PathBuf {
        self.release.join("rust")
    }

    /// A variant's folder.
    pub(crate) fn variant(&self, variant: Variant) -> PathBuf {
        self.release.join(variant.name())
    }

    /// See [`Lab::core_classes`](crate::Lab::core_classes).
    pub(crate) fn core_classes(&self) -> OsString {
        join_paths(&[
            self.java().join(CORE_CLASSES),
            self.java().join(ICU_CLASSES),
        ])
    }

    /// See [`Lab::tools_class_path`](crate::Lab::tools_class_path).
    pub(crate) fn tools_class_path(&self) -> OsString {
        join_paths(&[
            self.java().join(TOOLS_JAR),
            self.java().join(DX),
            PathBuf::from(ASM),
        ])
    }

    /// A core jar of this name as the Java part builds it.
    pub(crate) fn core_jar(&self, name: &str) -> PathBuf {
        self.java().join("out").join(name)
    }
}

/// Paths as a Java class path: joined with `:`.
pub(crate) fn join_paths(paths: &[PathBuf]) -> OsString {
    let mut text = OsString::new();
    for (i, path) in paths.iter().enumerate() {
        if i > 0 {
            text.push(":");
        }
        text.push(path);
    }
    text
}
