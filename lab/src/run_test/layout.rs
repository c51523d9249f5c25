// SPDX-License-Identifier: Apache-2.0
//! The places of the parts of a build that the run-tests use.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::run::Lab;
use crate::spec::Isa;
use crate::toolchain::target_flags_at;

/// The places of a build's parts, and the properties of the build, as the run-tests use them.
#[derive(Debug, Clone)]
pub struct Layout {
    /// ART's source tree, with `test/` and `tools/checker/`.
    pub art: PathBuf,
    /// AOSP's `ANDROID_HOST_OUT`: `bin`, `lib64`, `nativetest64`, `framework`, `com.android.runtime`, `com.android.tzdata`.
    pub host_out: PathBuf,
    /// Folder of the boot class path as the boot image names it (`-Xbootclasspath-locations`).
    pub boot_location: String,
    /// Stems of the boot class path's jars, in order, without `-hostdex.jar`.
    pub boot_modules: Vec<String>,
    /// Class files of the boot class path (folders or jars), for javac.
    pub boot_classes: Vec<PathBuf>,
    /// Class path of the lab's d8 (`dev.hindsight.lab.dex.D8`), with dx and ASM.
    pub dex_tools: Vec<PathBuf>,
    /// Inputs of `boot_classes` and `dex_tools`: they identify their contents, while the built files have new time
    /// stamps after each build.
    pub tool_inputs: Vec<PathBuf>,
    /// `lab/android-10/run-tests` of this repository.
    pub data: PathBuf,
    /// Folder for cached builds and logs.
    pub cache: PathBuf,
    /// The name of this ART in logs and reports, such as `stock` or `hindsight`.
    pub variant: String,
    /// The instruction set of the VM.
    pub isa: Isa,
    /// The words in front of the VM on the command line: the emulator of another instruction set.
    pub emulator: Vec<String>,
    /// `ANDROID_HOST_OUT` of the programs that run on this machine, such as dex2oat, if not `host_out`.
    pub native_out: Option<PathBuf>,
    /// Compiler options for code that is loaded into the VM.
    pub native_code_flags: Vec<String>,
    /// Extra environment of every process of a test.
    pub environment: BTreeMap<String, String>,
}

impl Layout {
    /// The layout of a finished build.
    pub fn of(lab: &Lab) -> Layout {
        let jars = lab.boot_class_path();
        let location = jars.first().map_or("", |j| j.location.as_str());
        let stem = |p: &Path| {
            p.file_name().map(|n| {
                n.to_string_lossy()
                    .trim_end_matches("-hostdex.jar")
                    .to_owned()
            })
        };
        let folders = &lab.folders;
        Layout {
            art: lab.source_dir("art"),
            host_out: lab.root().to_owned(),
            boot_location: Path::new(location)
                .parent()
                .unwrap_or(Path::new(""))
                .display()
                .to_string(),
            boot_modules: jars.iter().filter_map(|j| stem(&j.path)).collect(),
            boot_classes: std::env::split_paths(&lab.core_classes()).collect(),
            dex_tools: std::env::split_paths(&lab.tools_class_path()).collect(),
            tool_inputs: vec![
                folders.checkout.join("lab/tools/java"),
                folders.data.join("sources.toml"),
                folders.data.join("port/libcore"),
            ],
            data: folders.data.join("run-tests"),
            cache: folders.release.join("run-tests"),
            variant: lab.variant().name().to_owned(),
            isa: lab.isa,
            emulator: lab
                .launcher()
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            native_out: (!lab.isa.is_native()).then(|| lab.native_root()),
            native_code_flags: target_flags_at(lab.folders.spec, lab.isa, lab.dir())
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
            environment: lab
                .extra_environment()
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .chain(
                    folders
                        .spec
                        .modules_of_libcore
                        .iter()
                        .map(|(name, module)| {
                            let path = lab.root().join(module).display().to_string();
                            ((*name).to_owned(), path)
                        }),
                )
                .collect(),
        }
    }
}

impl Layout {
    /// The variant, followed by the instruction set if it is not this machine's.
    pub(super) fn name(&self) -> String {
        if self.isa.is_native() {
            self.variant.clone()
        } else {
            format!("{}-{}", self.variant, self.isa.name())
        }
    }
}
