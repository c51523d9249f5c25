// SPDX-License-Identifier: Apache-2.0
//! Which builds there are, and where they live.

use crate::release::Spec;
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A release of Android whose ART the lab builds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Release {
    /// Android 10 (ART 10.0.0_r36).
    #[default]
    Android10,
    /// Android 11 (ART 11.0.0_r48).
    Android11,
    /// Android 14 (ART 14.0.0_r15): the native part only, to compile and link it.
    Android14,
}

impl Release {
    /// All of them, the oldest first.
    pub const ALL: [Release; 3] = [Release::Android10, Release::Android11, Release::Android14];

    /// The number, as in `--release 10`.
    pub fn number(self) -> u32 {
        match self {
            Release::Android10 => 10,
            Release::Android11 => 11,
            Release::Android14 => 14,
        }
    }

    /// The name of the release's folders: `android-10`.
    pub fn name(self) -> &'static str {
        match self {
            Release::Android10 => "android-10",
            Release::Android11 => "android-11",
            Release::Android14 => "android-14",
        }
    }
}

impl FromStr for Release {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Release, String> {
        Release::ALL
            .into_iter()
            .find(|release| {
                text == release.name()
                    || text
                        .parse()
                        .is_ok_and(|number: u32| number == release.number())
            })
            .ok_or_else(|| {
                let known: Vec<String> = Release::ALL
                    .iter()
                    .map(|release| release.number().to_string())
                    .collect();
                format!(
                    "the lab has no release `{text}`; known: {}",
                    known.join(", ")
                )
            })
    }
}

/// The instruction set that the lab's programs are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// 64-bit x86, which this machine runs itself.
    X86_64,
    /// 64-bit ARM, run by qemu-user.
    Arm64,
    /// 32-bit ARM (Thumb-2), run by qemu-user.
    Arm,
}

impl Isa {
    /// All of them.
    pub const ALL: [Isa; 3] = [Isa::X86_64, Isa::Arm64, Isa::Arm];

    /// ART's name of the instruction set.
    pub fn name(self) -> &'static str {
        match self {
            Isa::X86_64 => "x86_64",
            Isa::Arm64 => "arm64",
            Isa::Arm => "arm",
        }
    }

    /// Whether the machine that the lab is built on runs it without an emulator.
    pub fn is_native(self) -> bool {
        self == Isa::X86_64
    }

    /// The program of Debian's qemu-user that runs its programs.
    pub fn emulator(self) -> Option<&'static str> {
        match self {
            Isa::X86_64 => None,
            Isa::Arm64 => Some("qemu-aarch64"),
            Isa::Arm => Some("qemu-arm"),
        }
    }

    /// Whether pointers have 64 bits.
    pub fn is_64_bit(self) -> bool {
        self != Isa::Arm
    }

    /// The folder of libraries below `ANDROID_ROOT`.
    pub fn library_dir(self) -> &'static str {
        if self.is_64_bit() {
            "lib64"
        } else {
            "lib"
        }
    }

    /// The folder of the run-tests' native halves below `ANDROID_ROOT`.
    pub fn native_test_dir(self) -> &'static str {
        if self.is_64_bit() {
            "nativetest64"
        } else {
            "nativetest"
        }
    }

    /// AOSP's name of `dalvikvm` for this width of pointers.
    pub fn dalvikvm(self) -> &'static str {
        if self.is_64_bit() {
            "dalvikvm64"
        } else {
            "dalvikvm32"
        }
    }

    /// Debian's name of the architecture.
    pub(crate) fn debian(self) -> &'static str {
        match self {
            Isa::X86_64 => "amd64",
            Isa::Arm64 => "arm64",
            Isa::Arm => "armhf",
        }
    }

    /// Debian's multiarch triple, which compilers take for a target too.
    pub(crate) fn triple(self) -> &'static str {
        match self {
            Isa::X86_64 => "x86_64-linux-gnu",
            Isa::Arm64 => "aarch64-linux-gnu",
            Isa::Arm => "arm-linux-gnueabihf",
        }
    }

    /// Rust's name of the target, where code is not for the machine itself.
    pub(crate) fn rust_target(self) -> Option<&'static str> {
        match self {
            Isa::X86_64 => None,
            Isa::Arm64 => Some("aarch64-unknown-linux-gnu"),
            Isa::Arm => Some("armv7-unknown-linux-gnueabihf"),
        }
    }

    /// Where Debian's packages put Android's libraries, on a system of this architecture.
    pub(crate) fn android_libraries(self) -> String {
        format!("/usr/lib/{}/android", self.triple())
    }
}

impl FromStr for Isa {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Isa, String> {
        match text {
            "x86_64" | "x86-64" => Ok(Isa::X86_64),
            "arm64" | "aarch64" => Ok(Isa::Arm64),
            "arm" => Ok(Isa::Arm),
            _ => Err(format!(
                "the lab has no instruction set `{text}`; known: x86_64, arm64, arm"
            )),
        }
    }
}

/// Which ART: the original, or the one with Hindsight's patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// ART as released, ported to Linux: the baseline of every comparison.
    Stock,
    /// ART with the patches of `aosp-patches/` and the code of `art-hooks/`.
    Hindsight,
    /// The same, with all of its C++ and Rust compiled for AddressSanitizer. For this machine's
    /// instruction set only.
    HindsightAddress,
}

impl Variant {
    /// All of them.
    pub const ALL: [Variant; 3] = [
        Variant::Stock,
        Variant::Hindsight,
        Variant::HindsightAddress,
    ];

    /// Whether it has Hindsight's patches.
    pub fn is_patched(self) -> bool {
        self != Variant::Stock
    }

    /// Whether AddressSanitizer checks it.
    pub fn is_sanitized(self) -> bool {
        self == Variant::HindsightAddress
    }

    /// The name of the variant's folder.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Stock => "stock",
            Variant::Hindsight => "hindsight",
            Variant::HindsightAddress => "hindsight-address",
        }
    }
}

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

/// The folder of this checkout: where the patches, the Java tools and `art-hooks` are.
pub(crate) fn checkout_dir() -> Result<PathBuf> {
    // xtask and the tests run from the checkout that they were compiled in.
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
}
