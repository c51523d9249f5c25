// SPDX-License-Identifier: Apache-2.0
//! Starting the programs of a finished build.

use crate::boot_image::{class_path_options, BootImage, BootJar};
use crate::error::{Error, Result};
use crate::layout::Folders;
use crate::spec::{Isa, Parts, Release, Variant};
use crate::util::run;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A finished build of ART.
#[derive(Clone, Debug)]
pub struct Lab {
    pub(crate) folders: Folders,
    pub(crate) isa: Isa,
    pub(crate) variant: Variant,
    dir: PathBuf,
    root: PathBuf,
}

impl Lab {
    /// Finds a build of [`Parts::All`] that [`build`](crate::build) has finished.
    ///
    /// # Errors
    /// [`Error::NotBuilt`], which names the command that builds it.
    pub fn open(release: Release, isa: Isa, variant: Variant) -> Result<Lab> {
        Lab::open_parts(release, isa, variant, Parts::All)
    }

    /// Finds a finished build that has at least these parts.
    ///
    /// # Errors
    /// [`Error::NotBuilt`], which names the command that builds it.
    pub fn open_parts(release: Release, isa: Isa, variant: Variant, parts: Parts) -> Result<Lab> {
        let lab = Lab::locate(release, isa, variant)?;
        if !lab.has(parts) {
            let mut command = "cargo xtask lab build".to_owned();
            if release != Release::default() {
                command.push_str(&format!(" --release {}", release.number()));
            }
            if !isa.is_native() {
                command.push_str(&format!(" --isa {}", isa.name()));
            }
            match variant {
                Variant::Stock => command.push_str(" --stock"),
                Variant::Hindsight => {}
                Variant::HindsightAddress => command.push_str(" --sanitize address"),
            }
            return Err(Error::NotBuilt {
                variant: variant.name(),
                release: release.name(),
                isa: isa.name(),
                dir: lab.dir,
                command,
            });
        }
        check_emulator(isa)?;
        Ok(lab)
    }

    /// The build, whether it exists or not.
    pub(crate) fn locate(release: Release, isa: Isa, variant: Variant) -> Result<Lab> {
        let folders = Folders::new(release)?;
        let isas = folders.spec.isas;
        if !isas.contains(&isa) {
            let known: Vec<&str> = isas.iter().map(|isa| isa.name()).collect();
            return Err(Error::Other(format!(
                "the lab has no {} for {}, only for {}",
                release.name(),
                isa.name(),
                known.join(", "),
            )));
        }
        let dir = folders.variant(variant);
        let root = dir.join("out").join(isa.name()).join("root");
        Ok(Lab {
            folders,
            isa,
            variant,
            dir,
            root,
        })
    }

    /// Written when a build of these parts is complete; removed before a build changes anything.
    pub(crate) fn finished_stamp(&self, parts: Parts) -> PathBuf {
        self.root.with_file_name(match parts {
            Parts::Programs => "finished-programs",
            Parts::All => "finished",
        })
    }

    /// Whether a build of at least these parts is complete.
    pub(crate) fn has(&self, parts: Parts) -> bool {
        self.finished_stamp(Parts::All).exists()
            || parts == Parts::Programs && self.finished_stamp(parts).exists()
    }

    /// The variant's folder. It serves as `ANDROID_BUILD_TOP`: boot class path locations are
    /// relative to it.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// `ANDROID_ROOT` and `ANDROID_HOST_OUT`: the folder of `bin`, `lib64`, `nativetest64` and
    /// `framework`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The variant of ART.
    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// The instruction set.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// The patched sources: `art`, `libcore`, `frameworks_base`, `system_core` or `fdlibm`.
    pub fn source_dir(&self, name: &str) -> PathBuf {
        self.dir.join("src").join(name)
    }

    /// The core jars, whose boot image is part of the build.
    pub fn boot_class_path(&self) -> Vec<BootJar> {
        let framework = self.root.join("framework");
        self.folders
            .spec
            .core_jars()
            .iter()
            .map(|jar| BootJar {
                path: framework.join(jar),
                location: format!("out/{}/root/framework/{jar}", self.isa.name()),
            })
            .collect()
    }

    /// The boot image of the core jars, compiled with the filter `speed`.
    pub fn core_image(&self) -> BootImage {
        BootImage {
            jars: self.boot_class_path(),
            image: self.root.join("framework/core.art"),
        }
    }

    /// The boot image of the core jars with the filter `quicken`, for the interpreter.
    pub fn core_interpreter_image(&self) -> BootImage {
        BootImage {
            jars: self.boot_class_path(),
            image: self.root.join("framework/core-interpreter.art"),
        }
    }

    /// The class path of the core classes for javac's `-bootclasspath` (folders and jars of class
    /// files, joined with `:`).
    pub fn core_classes(&self) -> OsString {
        self.folders.core_classes()
    }

    /// The folder of replacements for tools of the Android SDK (`d8`, `smali`, `python`), for the front of `PATH`.
    pub fn tools_dir(&self) -> PathBuf {
        self.folders.checkout.join("lab/tools/bin")
    }

    /// The class path of the lab's Java tools with dx and ASM, which the programs in
    /// [`Lab::tools_dir`] expect in `LAB_TOOLS_CLASS_PATH`.
    pub fn tools_class_path(&self) -> OsString {
        self.folders.tools_class_path()
    }

    /// The environment that ART's programs need.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        let root = &self.root;
        let mut environment = vec![
            ("ANDROID_BUILD_TOP", self.dir.clone().into()),
            ("ANDROID_HOST_OUT", root.into()),
            ("ANDROID_ROOT", root.into()),
            ("ANDROID_DATA", self.data_dir().into()),
            ("LD_LIBRARY_PATH", self.library_path()),
        ];
        for &(variable, module) in self.folders.spec.modules {
            environment.push((variable, root.join(module).into()));
        }
        for (name, value) in self.extra_environment() {
            environment.push((name, value.into()));
        }
        environment
    }

    /// Variables that an instruction set needs in addition to AOSP's own.
    pub(crate) fn extra_environment(&self) -> Vec<(&'static str, &'static str)> {
        if self.isa.is_native() {
            Vec::new()
        } else {
            // qemu-user does not notice code that changes through a second mapping of it.
            vec![("ART_JIT_SINGLE_VIEW", "1")]
        }
    }

    /// `LD_LIBRARY_PATH` of ART's programs. qemu looks for the folders of another architecture in its sysroot.
    fn library_path(&self) -> OsString {
        let mut path = self.root.join(self.isa.library_dir()).into_os_string();
        path.push(":");
        path.push(self.isa.android_libraries());
        path
    }

    /// The words in front of a program's path on the command line, if it needs any: the emulator, or the loader of a
    /// newer suite.
    pub(crate) fn launcher(&self) -> Vec<OsString> {
        if self.isa.is_native() && self.folders.spec.native_sysroot {
            let all = self.folders.sysroot(self.isa).join("usr/lib");
            let libraries = all.join(self.isa.triple());
            let mut path = self.root.join(self.isa.library_dir()).into_os_string();
            // libbacktrace needs 7-Zip's library.
            for dir in [
                libraries.join("android"),
                libraries.clone(),
                all.join("7zip"),
            ] {
                path.push(":");
                path.push(dir);
            }
            let loader = libraries.join("ld-linux-x86-64.so.2");
            return vec![loader.into(), "--library-path".into(), path];
        }
        match self.isa.emulator() {
            Some(emulator) => vec![
                emulator.into(),
                "-L".into(),
                self.folders.sysroot(self.isa).into(),
            ],
            None => Vec::new(),
        }
    }

    /// `ANDROID_DATA`: the folder to which programs write, for example the dalvik-cache.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// A program of `bin/` with its environment; warnings are logged unless the caller's own
    /// `ANDROID_LOG_TAGS` says otherwise. qemu runs the programs of another instruction set, except the compiler, which
    /// is this machine's.
    pub fn command(&self, program: &str) -> Command {
        let plain = self.isa.is_native() || !program.starts_with("dalvikvm");
        let mut command = if plain && !self.folders.spec.native_sysroot {
            Command::new(self.native_root().join("bin").join(program))
        } else {
            let mut words = self.launcher().into_iter();
            let mut command = Command::new(words.next().unwrap_or_default());
            command.args(words).arg(self.root.join("bin").join(program));
            command
        };
        command.envs(self.environment());
        if self.folders.spec.native_sysroot {
            // The loader's option names the libraries, for this program only.
            command.env_remove("LD_LIBRARY_PATH");
        } else if !program.starts_with("dalvikvm") {
            let mut path = self.native_root().join("lib64").into_os_string();
            path.push(":");
            path.push(Isa::X86_64.android_libraries());
            command.env("LD_LIBRARY_PATH", path);
        }
        if std::env::var_os("ANDROID_LOG_TAGS").is_none() {
            command.env("ANDROID_LOG_TAGS", "*:w");
        }
        command
    }

    /// Any program for the lab's instruction set, linked to its libraries, with the same environment.
    pub fn command_at(&self, program: &Path) -> Command {
        let mut words = self.launcher();
        words.push(program.into());
        let mut command = Command::new(words.remove(0));
        command.args(words).envs(self.environment());
        if self.folders.spec.native_sysroot {
            // The loader's option names the libraries.
            command.env_remove("LD_LIBRARY_PATH");
        }
        command
    }

    /// `ANDROID_ROOT` of the same variant for this machine.
    pub(crate) fn native_root(&self) -> PathBuf {
        self.dir.join("out").join(Isa::X86_64.name()).join("root")
    }

    /// `dalvikvm` with the core jars and their boot image; add options, `-cp`, and the main class.
    pub fn dalvikvm_command(&self) -> Command {
        self.dalvikvm_command_with(&self.core_image())
    }

    /// `dalvikvm` with another boot image (see [`Lab::build_boot_image`]).
    pub fn dalvikvm_command_with(&self, image: &BootImage) -> Command {
        self.dalvikvm_command_extended(image, &[])
    }

    /// `dalvikvm` with a boot image, and on the boot class path further jars that are not in the image.
    pub fn dalvikvm_command_extended(&self, image: &BootImage, more: &[BootJar]) -> Command {
        let jars: Vec<BootJar> = image.jars.iter().chain(more).cloned().collect();
        let mut command = self.command(self.isa.dalvikvm());
        command.args(class_path_options(&jars));
        let mut option = OsString::from("-Ximage:");
        option.push(&image.image);
        command.arg(option).arg("-Xnorelocate");
        // libbacktrace is slow at the native stacks of a SIGQUIT dump, which nobody needs.
        command.arg("-XX:DumpNativeStackOnSigQuit:false");
        command
    }

    /// `dex2oat` with the core jars as its boot class path and their boot image; add `--dex-file`,
    /// `--oat-file` and so on.
    pub fn dex2oat_command(&self) -> Command {
        self.dex2oat_command_with(&self.core_image())
    }

    /// `dex2oat` with another boot image and its jars as the boot class path.
    pub fn dex2oat_command_with(&self, image: &BootImage) -> Command {
        let mut command = self.command("dex2oat");
        for option in class_path_options(&image.jars) {
            command.arg("--runtime-arg").arg(option);
        }
        let mut option = OsString::from("--boot-image=");
        option.push(&image.image);
        command.arg(option);
        let mut option = OsString::from("--android-root=");
        option.push(&self.root);
        command.arg(option);
        command.args(["--runtime-arg", "-Xnorelocate"]);
        command.arg(format!("--instruction-set={}", self.isa.name()));
        if !self.isa.is_native() {
            command.arg("--instruction-set-features=default");
        }
        command
    }
}

/// Fails unless the emulator of another instruction set is installed.
fn check_emulator(isa: Isa) -> Result<()> {
    isa.emulator().map_or(Ok(()), check_program)
}

fn check_program(program: &str) -> Result<()> {
    let mut command = Command::new(program);
    command.arg("-version");
    run(command, &format!("asking {program} for its version")).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_of_all_parts_also_runs_programs_but_not_the_reverse() {
        let dir = tempfile::tempdir().unwrap();
        let mut lab = Lab::locate(Release::Android10, Isa::X86_64, Variant::Hindsight).unwrap();
        lab.root = dir.path().join("root");
        let has = |lab: &Lab| (lab.has(Parts::Programs), lab.has(Parts::All));
        assert_eq!(has(&lab), (false, false));
        let stamp = |parts| std::fs::write(lab.finished_stamp(parts), "").unwrap();
        stamp(Parts::Programs);
        assert_eq!(has(&lab), (true, false));
        std::fs::remove_file(lab.finished_stamp(Parts::Programs)).unwrap();
        stamp(Parts::All);
        assert_eq!(has(&lab), (true, true));
    }

    #[test]
    fn a_missing_emulator_leads_to_its_package() {
        check_emulator(Isa::X86_64).unwrap();
        let message = check_program("qemu-no-such-cpu").unwrap_err().to_string();
        assert!(
            message.starts_with("cannot run qemu-no-such-cpu")
                && message.ends_with("install the package `qemu-user`"),
            "{message}"
        );
    }
}
