// SPDX-License-Identifier: Apache-2.0
//! AOSP's scripts with the lab's changes, in the folders that they expect around them.

use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{bail, Context, Result};

use super::files::io_context;
use super::layout::Layout;
use super::tools;
use crate::spec::Isa;

/// A substitute for an Android source tree (`ANDROID_BUILD_TOP`).
pub(super) struct Scripts {
    /// `ANDROID_BUILD_TOP`.
    pub(super) top: PathBuf,
    /// `default-build`, `default-run`, `default-check`, `run-test-jar`.
    pub(super) etc: PathBuf,
    /// The folder for the front of `PATH`.
    pub(super) bin: PathBuf,
    /// `ANDROID_HOST_OUT`, which has to be below `top`.
    pub(super) host_out: PathBuf,
    /// A library to preload into dalvikvm: it prints log messages in the form that the tests expect.
    pub(super) brief_log: PathBuf,
}

/// A change of a script.
struct Change {
    /// The text to find and its replacement, one pair for each spelling in the releases of Android.
    spellings: &'static [(&'static str, &'static str)],
    why: &'static str,
}

const RUN_TEST_JAR: [Change; 6] = [
    Change {
        spellings: &[("\nISA=x86\n", "\nISA=${HINDSIGHT_ISA}\n")],
        why: "the lab's 32-bit instruction set is ARM",
    },
    Change {
        spellings: &[(
            "        ISA=\"x86_64\"\n",
            "        ISA=\"${HINDSIGHT_ISA}\"\n",
        )],
        why: "the lab has two 64-bit instruction sets",
    },
    Change {
        spellings: &[(
            "\nbpath_modules=\"",
            "\nbpath_modules=\"${HINDSIGHT_BOOT_MODULES}\" # was: \"",
        )],
        why: "the lab has no okhttp, bouncycastle, apache-xml and conscrypt",
    },
    Change {
        spellings: &[(
            "framework_location=\"${ANDROID_HOST_OUT:${#ANDROID_BUILD_TOP}+1}/framework\"",
            "framework_location=\"${HINDSIGHT_BOOT_LOCATION}\"",
        )],
        why: "it must equal the location in the boot image",
    },
    Change {
        spellings: &[
            ("\nTIME_OUT=\"gdb\"", "\nTIME_OUT=\"n\""),
            (
                "\n  TIME_OUT=\"timeout\"\nfi\n\n# If you change this",
                "\n  TIME_OUT=\"n\"\nfi\n\n# If you change this",
            ),
        ],
        why: "the runner itself limits the time",
    },
    Change {
        spellings: &[
            (
                "$INVOKE_WITH $GDB $BIN_DIR/$DALVIKVM",
                "$INVOKE_WITH $HINDSIGHT_LAUNCHER $GDB $BIN_DIR/$DALVIKVM",
            ),
            (
                "$INVOKE_WITH $GDB $ANDROID_ART_BIN_DIR/$DALVIKVM",
                "$INVOKE_WITH $HINDSIGHT_LAUNCHER $GDB $ANDROID_ART_BIN_DIR/$DALVIKVM",
            ),
        ],
        why: "tracing is for the VM, not for dex2oat",
    },
];

const JAVAC_HELPER: &str = r#"#!/bin/bash
# Replaces AOSP's script, which asks the Android build for the place of libcore's classes.
while true; do
  case "$1" in
    --mode=*|--core-only|--show-commands) shift;;
    *) break;;
  esac
done
${JAVAC} -nowarn -XDstringConcat=inline -proc:none -bootclasspath "$HINDSIGHT_BOOT_CLASSES" "$@"
"#;

/// Unlike d8, dx needs no boot class path to desugar interfaces' methods.
const BOOTJARS: &str = "#!/bin/bash\nexit 0\n";

impl Scripts {
    /// Lays everything out in the folder `top`, which must be new.
    pub(super) fn prepare(layout: &Layout, top: PathBuf) -> Result<Scripts> {
        let s = Scripts::at(top, layout);
        s.fill(layout)?;
        Ok(s)
    }

    fn at(top: PathBuf, layout: &Layout) -> Scripts {
        // The class loader of resources looks for the jars at their locations, relative to `top`.
        let framework = Path::new(&layout.boot_location);
        let host_out = if framework.is_absolute() {
            None
        } else {
            framework.parent().map(|p| top.join(p))
        };
        Scripts {
            etc: top.join("etc"),
            bin: top.join("bin"),
            brief_log: top.join("libbrief_log.so"),
            host_out: host_out.unwrap_or_else(|| top.join("host")),
            top,
        }
    }

    /// This program, which is the client of the tool server if it is started so (see [`tools::run_as_tool`]).
    pub(super) fn tool_client(&self) -> PathBuf {
        self.bin.join("run-test-tool")
    }

    fn fill(&self, layout: &Layout) -> Result<()> {
        let test = layout.art.join("test");
        for d in [
            self.top.join("art/tools"),
            self.etc.clone(),
            self.bin.clone(),
            self.top.join("prebuilts/misc/common/asm"),
        ] {
            std::fs::create_dir_all(&d).with_context(|| io_context("make", &d))?;
        }
        link(&test, &self.top.join("art/test"))?;
        if let Some(parent) = self.host_out.parent() {
            std::fs::create_dir_all(parent).with_context(|| io_context("make", parent))?;
        }
        // A folder of links, so that d8 can be added to `bin` for a test that looks for it there.
        let bin = self.host_out.join("bin");
        std::fs::create_dir_all(&bin).with_context(|| io_context("make", &bin))?;
        link_entries(&layout.host_out, &self.host_out, &["bin"])?;
        link_entries(&layout.host_out.join("bin"), &bin, &["d8"])?;
        if let Some(native) = &layout.native_out {
            native_programs(native, &bin)?;
        }
        // A copy, since cargo may replace this program while it runs.
        let exe = self.tool_client();
        std::fs::copy("/proc/self/exe", &exe).with_context(|| io_context("write", &exe))?;
        script(
            &bin.join("d8"),
            &format!(
                "#!/bin/sh\nexec {} {} d8 \"$@\"\n",
                exe.display(),
                tools::ARGUMENT
            ),
        )?;
        let asm = layout.dex_tools.iter().find(|p| {
            p.file_name()
                .is_some_and(|n| n.to_string_lossy().starts_with("asm"))
        });
        if let Some(asm) = asm {
            link(asm, &self.top.join("prebuilts/misc/common/asm/asm-6.0.jar"))?;
        }
        script(&self.top.join("art/tools/javac-helper.sh"), JAVAC_HELPER)?;
        script(&self.top.join("art/tools/bootjars.sh"), BOOTJARS)?;
        // Python 2 is gone from Debian; the scripts that say `python` run with Python 3 too.
        script(&self.bin.join("python"), "#!/bin/sh\nexec python3 \"$@\"\n")?;
        // A test compiles class files itself and relies on javac's default of its time, Java 8.
        let javac = format!(
            "#!/bin/sh\nexec {} {} javac -nowarn -source 8 -target 8 \"$@\"\n",
            exe.display(),
            tools::ARGUMENT
        );
        script(&self.bin.join("javac"), &javac)?;
        if let Some(converter) = hprof_conv() {
            link(&converter, &bin.join("hprof-conv"))?;
        }
        // Headers of generated sources.
        let copyright = self.top.join("development/docs/copyright-templates");
        std::fs::create_dir_all(&copyright).with_context(|| io_context("make", &copyright))?;
        for (file, comment) in [("java.txt", "//"), ("smali.txt", "#")] {
            std::fs::write(copyright.join(file), format!("{comment} generated\n"))?;
        }
        compile_shim(
            &layout.data.join("shims/brief_log.c"),
            &layout.native_code_flags,
            &self.brief_log,
        )?;
        for name in ["default-build", "default-run", "default-check"] {
            let text = read(&test.join("etc").join(name))?;
            script(&self.etc.join(name), &text)?;
        }
        let from = test.join("etc/run-test-jar");
        script(
            &self.etc.join("run-test-jar"),
            &adapt(&read(&from)?, &RUN_TEST_JAR)
                .with_context(|| format!("in {}", from.display()))?,
        )
    }
}

/// Links this machine's programs of ART where another instruction set's build has none.
fn native_programs(native: &Path, bin: &Path) -> Result<()> {
    for name in ["dex2oat", "profman", "oatdump", "hiddenapi", "dexdump2"] {
        let at = bin.join(name);
        if at.exists() {
            continue;
        }
        let text = format!(
            "#!/bin/sh\nexport LD_LIBRARY_PATH={0}/lib64:{1}\nexec {0}/bin/{name} \"$@\"\n",
            native.display(),
            Isa::X86_64.android_libraries()
        );
        script(&at, &text)?;
    }
    Ok(())
}

fn compile_shim(source: &Path, flags: &[String], library: &Path) -> Result<()> {
    let out = Command::new("clang-14")
        .args(flags)
        .args(["-fuse-ld=lld"])
        .args([
            "-O2",
            "-Wall",
            "-shared",
            "-fPIC",
            "-fvisibility=hidden",
            "-o",
        ])
        .arg(library)
        .arg(source)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("can't run clang-14: install it")?
        .wait_with_output()?;
    if !out.status.success() {
        bail!(
            "clang-14 failed on {}:\n{}",
            source.display(),
            String::from_utf8_lossy(&out.stderr)
        );
    }
    Ok(())
}

fn adapt(text: &str, changes: &[Change]) -> Result<String> {
    let mut text = text.to_owned();
    for Change { spellings, why } in changes {
        let times = |(find, _): &(&str, &str)| text.matches(find).count();
        if spellings.iter().map(times).sum::<usize>() != 1 {
            let find: Vec<&str> = spellings.iter().map(|(find, _)| *find).collect();
            bail!(
                "`{}` must be there exactly once; the lab replaces it since {why}",
                find.join(" or ")
            );
        }
        for (find, put) in *spellings {
            text = text.replacen(find, put, 1);
        }
    }
    Ok(text)
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| io_context("read", path))
}

fn link(target: &Path, at: &Path) -> Result<()> {
    symlink(target, at).with_context(|| io_context("make the link", at))
}

/// `hprof-conv` in `PATH`, or in the Android SDK's folder, to which Debian's package installs it.
fn hprof_conv() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let sdk = PathBuf::from("/usr/lib/android-sdk/platform-tools");
    std::env::split_paths(&path)
        .chain([sdk])
        .map(|d| d.join("hprof-conv"))
        .find(|p| p.is_file())
}

fn link_entries(from: &Path, to: &Path, except: &[&str]) -> Result<()> {
    for e in std::fs::read_dir(from).with_context(|| io_context("read", from))? {
        let e = e?;
        if !except.iter().any(|x| e.file_name() == *x) {
            link(&e.path(), &to.join(e.file_name()))?;
        }
    }
    Ok(())
}

fn script(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| io_context("write", path))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
        .with_context(|| io_context("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_does_not_apply_is_an_error() {
        let changes = [Change {
            spellings: &[("a=1", "a=2"), ("b=1", "b=2")],
            why: "of the test",
        }];
        assert_eq!(adapt("x\na=1\n", &changes).unwrap(), "x\na=2\n");
        assert_eq!(adapt("x\nb=1\n", &changes).unwrap(), "x\nb=2\n");
        for text in ["x\n", "a=1 a=1", "a=1 b=1"] {
            let e = adapt(text, &changes).unwrap_err();
            assert!(e.to_string().contains("since of the test"), "{e}");
        }
    }
}
