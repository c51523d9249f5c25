// SPDX-License-Identifier: Apache-2.0
//! A UI thread for the lab: `Looper`, `Handler`, `AsyncTask`, `Choreographer` and their dependencies, from the original
//! sources of frameworks/base with Hindsight's patches.
//!
//! `lab/<release>/framework/README.md` lists the parts that are not original. [`Framework::build`] makes, in the
//! variant's folder, `framework.jar`, `hindsight.jar` (the Java side of tracing, from `art-hooks/java`),
//! `libandroid_runtime.so`, and a boot image of the core jars with these two jars behind them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::files::{digest, files_with_extension, java_files, list_file};
use super::java::JavaLibrary;
use super::javastream;
use super::lab::Lab;
use crate::boot_image::{
    class_path_options, instruction_set_features, BootImage, BootImageSpec, BootJar,
};
use crate::error::{Error, IoContext as _, Result};
use crate::lock::Lock;
use crate::toolchain::target_flags_at;
use crate::util::{create_dir, read, remove, run, write_atomic};

/// Folders of frameworks/base with the originals' Java sources.
const ORIGINAL_SOURCES: [&str; 2] = ["core/java", "graphics/java"];
/// The class that starts a program on the framework; see `lab/android-10/framework/java`.
const LAUNCHER: &str = "dev.hindsight.lab.AppProcess";

/// How an app's code is executed. The framework itself is compiled ahead of time, except by `Interpreter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// Everything is interpreted, the boot class path too.
    Interpreter,
    /// Hot methods are compiled while the app runs.
    Jit,
    /// The app has been compiled ahead of time, by [`Framework::compile_app`].
    Aot,
}

/// The framework of a lab build, with its boot image.
#[derive(Clone, Debug)]
pub struct Framework {
    lab: Lab,
    dir: PathBuf,
    image: BootImage,
}

/// A program for the framework.
#[derive(Clone, Debug)]
pub struct App {
    jar: PathBuf,
    /// A copy of the jar with compiled code beside it, which ART uses in every mode except `-Xint`.
    compiled_jar: PathBuf,
}

impl App {
    /// The jar that [`Execution::Interpreter`] and [`Execution::Jit`] run.
    pub(crate) fn jar(&self) -> &Path {
        &self.jar
    }
}

impl Framework {
    /// Builds the framework unless it is up to date; takes about 20 seconds the first time.
    ///
    /// # Errors
    /// If a source of frameworks/base is missing, a compiler fails, or files cannot be written.
    pub fn build(lab: &Lab, progress: &dyn Fn(&str)) -> Result<Framework> {
        let data = lab.folders.data.join("framework");
        if !data.is_dir() {
            return Err(Error::Other(format!(
                "the lab has no framework for this release: {} is not there",
                data.display(),
            )));
        }
        let dir = lab.root().with_file_name("framework");
        // Other processes may want it, too.
        let _lock = Lock::take(&dir)?;
        let build = Build {
            lab,
            originals: lab.source_dir("frameworks_base"),
            hindsight: lab.folders.checkout.join("art-hooks/java"),
            hooks: lab.folders.checkout.join("aosp/common/framework/java"),
            data,
            dir: dir.clone(),
        };

        let jars = [dir.join("framework.jar"), dir.join("hindsight.jar")];
        let release = lab.folders.data.file_name().unwrap_or_default();
        let patches = lab.folders.checkout.join("aosp-patches").join(release);
        let patches = patches.join("frameworks_base");
        let sources = digest(&[&build.data, &build.hindsight, &build.hooks, &patches])?;
        let wanted = format!("{sources}\n{}", fingerprint(lab)?);
        let stamp_file = dir.join("finished");
        let image = dir.join("core.art");
        if std::fs::read_to_string(&stamp_file).ok().as_deref() != Some(&wanted) {
            remove(&stamp_file)?;
            progress("framework.jar");
            build.framework_jar(&jars[0])?;
            progress("hindsight.jar");
            build.hindsight_jar(&jars[1])?;
            progress("libandroid_runtime.so");
            build.native_library()?;
            progress("boot image");
            lab.build_boot_image(&BootImageSpec {
                jars: boot_jars(lab, &jars),
                filter: "speed".to_owned(),
                image: image.clone(),
                options: Vec::new(),
            })?;
            write_atomic(&stamp_file, wanted.as_bytes())?;
        }
        Ok(Framework {
            image: BootImage {
                jars: boot_jars(lab, &jars),
                image,
            },
            lab: lab.clone(),
            dir,
        })
    }

    /// The boot image of the core jars, the framework and Hindsight's classes.
    pub fn boot_image(&self) -> &BootImage {
        &self.image
    }

    /// The lab that it runs on.
    pub(crate) fn lab(&self) -> &Lab {
        &self.lab
    }

    /// The folder of the jars and libraries.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The same framework with another boot image of the same jars. Apps that were compiled ahead of time do not fit to it.
    #[must_use]
    pub fn with_boot_image(&self, image: BootImage) -> Framework {
        Framework {
            image,
            ..self.clone()
        }
    }

    /// Compiles the program in a folder of Java sources to `NAME.jar`, and ahead of time for
    /// [`Execution::Aot`]. Does nothing if it is up to date.
    ///
    /// # Errors
    /// If a compiler fails, or files cannot be written.
    pub fn compile_app(&self, name: &str, sources: &Path) -> Result<App> {
        let library = JavaLibrary {
            sources: java_files(sources)?,
            ..JavaLibrary::default()
        };
        self.compile_program(name, &library)
    }

    /// As [`Framework::compile_app`], for sources and classes from several places. The framework's classes are added to the
    /// class path.
    ///
    /// # Errors
    /// If a compiler fails, or files cannot be written.
    pub fn compile_program(&self, name: &str, library: &JavaLibrary) -> Result<App> {
        let dir = self.dir.join("apps").join(name);
        let inputs = [
            &library.sources,
            &library.source_path,
            &library.class_path,
            &library.class_jars,
            &library.resources,
        ];
        let inputs: Vec<&Path> = inputs.into_iter().flatten().map(PathBuf::as_path).collect();
        let wanted = format!(
            "{}\n{}",
            digest(&inputs)?,
            read(&self.dir.join("finished"))?
        );
        let stamp_file = dir.join("finished");
        let _lock = Lock::take(&self.dir)?;
        if std::fs::read_to_string(&stamp_file).ok().as_deref() == Some(&wanted) {
            return Ok(app_in(&dir, name));
        }
        remove(&dir)?;
        let app = self.compile_program_in(&dir, name, library)?;
        write_atomic(&stamp_file, wanted.as_bytes())?;
        Ok(app)
    }

    /// As [`Framework::compile_program`], to a folder of the caller's own, in any case: for a program that only one run needs.
    ///
    /// # Errors
    /// If a compiler fails, or files cannot be written.
    pub fn compile_program_in(&self, dir: &Path, name: &str, library: &JavaLibrary) -> Result<App> {
        let app = app_in(dir, name);
        let mut program = library.clone();
        program.class_path.extend(self.classes());
        self.lab.compile_java(&program, &app.jar)?;
        create_dir(&dir.join("compiled"))?;
        std::fs::copy(&app.jar, &app.compiled_jar).context("write", &app.compiled_jar)?;
        self.compile_ahead_of_time(&app.compiled_jar)?;
        Ok(app)
    }

    /// Compiles a jar to the file in which ART looks for its code: `oat/<isa>/NAME.odex` beside the jar.
    fn compile_ahead_of_time(&self, jar: &Path) -> Result<()> {
        let oat = jar
            .with_file_name("oat")
            .join(self.lab.isa.name())
            .join(jar.file_name().unwrap_or_default())
            .with_extension("odex");
        create_dir(oat.parent().unwrap_or(Path::new(".")))?;
        let mut command = self.lab.command("dex2oat");
        command.env("ANDROID_LOG_TAGS", "*:e");
        for argument in class_path_options(&self.image.jars) {
            command.arg("--runtime-arg").arg(argument);
        }
        command.arg(option("--boot-image=", &self.image.image));
        command.arg(option("--android-root=", self.lab.root()));
        command.args(["--runtime-arg", "-Xnorelocate"]);
        command.arg(format!("--instruction-set={}", self.lab.isa.name()));
        command.arg(option("--dex-file=", jar));
        command.arg(option("--oat-file=", &oat));
        command.args([
            "--compiler-filter=speed",
            "--class-loader-context=PCL[]",
            "--host",
        ]);
        let features = instruction_set_features(self.lab.isa);
        command.arg(format!("--instruction-set-features={features}"));
        run(
            command,
            &format!("compiling {} ahead of time", jar.display()),
        )?;
        Ok(())
    }

    /// `dalvikvm`, starting a program's `main` on the framework with its natives, as `app_process` does on a
    /// device; add the program's arguments.
    pub fn app_command(&self, app: &App, main_class: &str, execution: Execution) -> Command {
        let mut command = self.vm_command(app, execution);
        command.arg(LAUNCHER).arg(main_class);
        command
    }

    /// `dalvikvm` with a program on its class path; add options, the main class and the program's arguments.
    pub fn vm_command(&self, app: &App, execution: Execution) -> Command {
        let (option, jar) = match execution {
            Execution::Interpreter => ("-Xint", &app.jar),
            Execution::Jit => ("-Xusejit:true", &app.jar),
            Execution::Aot => ("-Xusejit:false", &app.compiled_jar),
        };
        let mut command = self.bare_command();
        command.arg(option).arg("-cp").arg(jar);
        command
    }

    /// As [`Framework::app_command`] with [`Execution::Jit`], for a jar or an APK that was made elsewhere.
    pub fn jar_command(&self, jar: &Path, main_class: &str) -> Command {
        let mut command = self.bare_command();
        command.arg("-Xusejit:true").arg("-cp").arg(jar);
        command.arg(LAUNCHER).arg(main_class);
        command
    }

    /// The class files that a program for the framework is compiled against.
    pub fn classes(&self) -> Vec<PathBuf> {
        ["framework", "hindsight"]
            .map(|name| self.dir.join("classes").join(name))
            .to_vec()
    }

    fn bare_command(&self) -> Command {
        let mut command = self.lab.dalvikvm_command_with(&self.image);
        command.env("LD_LIBRARY_PATH", self.library_path());
        if std::env::var_os("ANDROID_LOG_TAGS").is_none() {
            // ART warns of each jar of the boot class path that is not in a device's folder.
            command.env("ANDROID_LOG_TAGS", "*:e");
        }
        command
    }

    fn library_path(&self) -> OsString {
        let mut path = self.dir.clone().into_os_string();
        for (name, value) in self.lab.environment() {
            if name == "LD_LIBRARY_PATH" {
                path.push(":");
                path.push(value);
            }
        }
        // ART's test library, by which a benchmark ensures that its methods are compiled.
        path.push(":");
        path.push(self.lab.root().join(self.lab.isa.native_test_dir()));
        path
    }
}

/// The program of this name in the folder that it is compiled to.
fn app_in(dir: &Path, name: &str) -> App {
    App {
        jar: dir.join(name).with_extension("jar"),
        compiled_jar: dir.join("compiled").join(name).with_extension("jar"),
    }
}

fn boot_jars(lab: &Lab, jars: &[PathBuf]) -> Vec<BootJar> {
    let mut all = lab.boot_class_path();
    for jar in jars {
        let location = jar.strip_prefix(lab.dir()).unwrap_or(jar);
        all.push(BootJar {
            path: jar.clone(),
            location: location.display().to_string(),
        });
    }
    all
}

/// The steps of a build.
struct Build<'a> {
    lab: &'a Lab,
    /// frameworks/base.
    originals: PathBuf,
    /// `lab/<release>/framework`.
    data: PathBuf,
    /// `art-hooks/java`.
    hindsight: PathBuf,
    /// The classes of Hindsight that become part of the framework.
    hooks: PathBuf,
    /// The output folder.
    dir: PathBuf,
}

impl Build<'_> {
    fn framework_jar(&self, jar: &Path) -> Result<()> {
        let generated = self.dir.join("generated");
        remove(&generated)?;
        let protos = list_file(&self.data.join("protos.txt"))?
            .into_iter()
            .map(|name| Ok((name.clone(), read(&self.originals.join(name))?)))
            .collect::<Result<Vec<_>>>()?;
        let constants =
            javastream::generate(&protos).map_err(|error| Error::Other(error.to_string()))?;
        for (path, class) in constants {
            write_atomic(&generated.join(path), class.as_bytes())?;
        }

        let own = self.data.join("java");
        let stubs = self.data.join("stubs");
        let mut sources: Vec<PathBuf> = list_file(&self.data.join("roots.txt"))?
            .into_iter()
            .map(|name| self.originals.join(name))
            .collect();
        sources.extend(java_files(&own)?);
        let mut source_path = vec![own, stubs.clone(), generated, self.hooks.clone()];
        source_path.extend(ORIGINAL_SOURCES.map(|folder| self.originals.join(folder)));
        let classes = self.dir.join("classes/framework");
        let library = JavaLibrary {
            sources,
            source_path,
            class_output: Some(classes.clone()),
            ..JavaLibrary::default()
        };
        self.lab.compile_java(&library, jar)?;
        check_stubs(&stubs, &classes)
    }

    fn hindsight_jar(&self, jar: &Path) -> Result<()> {
        let library = JavaLibrary {
            sources: java_files(&self.hindsight)?,
            class_path: vec![self.dir.join("classes/framework")],
            class_output: Some(self.dir.join("classes/hindsight")),
            ..JavaLibrary::default()
        };
        self.lab.compile_java(&library, jar)
    }

    fn native_library(&self) -> Result<()> {
        let own = self.data.join("jni");
        let isa = self.lab.isa;
        let mut command = Command::new("clang++-14");
        let mut sysroot = PathBuf::new();
        if !isa.is_native() {
            sysroot = self.lab.folders.sysroot(isa);
            let flags = target_flags_at(self.lab.folders.spec, isa, self.lab.dir());
            command.args(flags.split(' '));
        }
        let mut inputs: Vec<PathBuf> = list_file(&self.data.join("jni-sources.txt"))?
            .into_iter()
            .map(|name| self.originals.join(name))
            .collect();
        inputs.extend(files_with_extension(&own, "cpp")?);
        let output = self.dir.join("libandroid_runtime.so");
        let temporary = output.with_extension("so.new");
        command.args([
            "-std=gnu++17",
            "-O2",
            "-g",
            "-fPIC",
            "-fno-rtti",
            "-pthread",
            "-shared",
            "-fuse-ld=lld",
            // The originals rely on headers that bionic's and libc++'s headers include.
            "-include",
            "cstring",
            "-include",
            "functional",
            "-w",
        ]);
        // First, since two of these headers replace originals.
        command.arg("-I").arg(own.join("include"));
        command.arg("-I").arg(self.originals.join("core/jni"));
        for dir in ["/usr/include/android", "/usr/include/android/nativehelper"] {
            command.arg(format!("-I{}{dir}", sysroot.display()));
        }
        command.args(&inputs);
        command.args(["-Wl,-soname,libandroid_runtime.so", "-Wl,--no-undefined"]);
        let libraries = isa.android_libraries();
        command.arg(format!("-L{}{libraries}", sysroot.display()));
        command.arg(format!("-Wl,-rpath,{libraries}"));
        command.args(["-lutils", "-lcutils", "-llog", "-lbase", "-lnativehelper"]);
        command.arg("-o").arg(&temporary);
        run(command, "compiling libandroid_runtime.so")?;
        std::fs::rename(&temporary, &output).context("write", &output)
    }
}

/// Fails if the build did not use one of the stubs, so that none stays in the checkout without need.
fn check_stubs(stubs: &Path, classes: &Path) -> Result<()> {
    for stub in java_files(stubs)? {
        let class = stub
            .strip_prefix(stubs)
            .unwrap_or(&stub)
            .with_extension("class");
        if !classes.join(&class).exists() {
            return Err(Error::Other(format!(
                "nothing in framework.jar needs the stub {}: remove it, and its line in the README",
                stub.display()
            )));
        }
    }
    Ok(())
}

/// A text that changes with the lab's compiler and its core classes.
fn fingerprint(lab: &Lab) -> Result<String> {
    let mut text = String::new();
    let core_image = format!("framework/{}/core.art", lab.isa.name());
    for name in [
        &core_image,
        "bin/dex2oat",
        "lib64/libart.so",
        "lib64/libart-compiler.so",
    ] {
        let root = match name.starts_with("framework") {
            true => lab.root().to_owned(),
            // This machine's compiler serves all instruction sets.
            false => lab.native_root(),
        };
        let path = root.join(name);
        let data = std::fs::metadata(&path).context("find", &path)?;
        let modified = data.modified().context("find", &path)?;
        text.push_str(&format!("{name} {} {modified:?}\n", data.len()));
    }
    Ok(text)
}

fn option(name: &str, path: &Path) -> OsString {
    let mut option = OsString::from(name);
    option.push(path);
    option
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path) {
        write_atomic(path, b"x").unwrap();
    }

    #[test]
    fn a_stub_that_nothing_needs_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let (stubs, classes) = (dir.path().join("stubs"), dir.path().join("classes"));
        write(&stubs.join("a/Needed.java"));
        write(&classes.join("a/Needed.class"));
        check_stubs(&stubs, &classes).unwrap();
        write(&stubs.join("a/Unused.java"));
        let error = check_stubs(&stubs, &classes).unwrap_err().to_string();
        assert!(error.contains("a/Unused.java"), "{error}");
    }

    #[test]
    fn a_digest_depends_on_names_and_contents() {
        let dir = tempfile::tempdir().unwrap();
        let of = || digest(&[dir.path()]).unwrap();
        write(&dir.path().join("a"));
        let first = of();
        assert_eq!(first, of());
        std::fs::rename(dir.path().join("a"), dir.path().join("b")).unwrap();
        let renamed = of();
        assert_ne!(first, renamed);
        write_atomic(&dir.path().join("b"), b"y").unwrap();
        assert_ne!(renamed, of());
    }

    #[test]
    fn lists_may_have_comments() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list.txt");
        write_atomic(&path, b"# what\n\n one \ntwo\n").unwrap();
        assert_eq!(list_file(&path).unwrap(), ["one", "two"]);
    }
}
