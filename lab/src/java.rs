// SPDX-License-Identifier: Apache-2.0
//! The Java part: core libraries, ICU and the tools that make dex files. Both variants share it.

use crate::error::IoContext;
use crate::ninja::{Edge, Writer};
use crate::paths::{Folders, Release};
use crate::source::hindsight_patches;
use crate::util::{create_dir, run, write_if_changed};
use crate::{Error, Lab, Result};
use hindsight_blueprint::{Source, Tree, Variation};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian's jars.
const ASM: &str = "/usr/share/java/asm-all.jar";
const ICU4J: &str = "/usr/share/java/icu4j.jar";
const JARJAR: &str = "/usr/share/java/jarjar.jar";

/// dx, relative to a folder that has the sources in `src/`.
const DX: &str = "src/dx/usr/share/java/com.android.dx-10.0.0.jar";

const TOOLS: &str = "hindsight/lab/tools/java/dev/hindsight/lab/dex";

/// Class files for javac's `-bootclasspath`, relative to the Java folder.
const CORE_CLASSES: &str = "out/core-classes.jar";
const ICU_CLASSES: &str = "out/icu-android.jar";
const TOOLS_JAR: &str = "out/lab-tools.jar";

/// Only shows that the language features of Java 9 work, for a test of libcore; `-source 8` refuses it.
const JAVA_9_SOURCE: &str = "/libcore/internal/Java9LanguageFeatures.java";

/// JVM flags of tools that run for seconds.
const SHORT_LIVED: &str = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1";

/// javac flags: Java 8 class files without the factories that Android lacks.
const JAVAC_FLAGS: [&str; 9] = [
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

/// See [`Lab::core_classes`].
pub(crate) fn boot_classes(folders: &Folders) -> OsString {
    join(&[
        folders.java().join(CORE_CLASSES),
        folders.java().join(ICU_CLASSES),
    ])
}

/// See [`Lab::tools_class_path`].
pub(crate) fn tools_class_path(folders: &Folders) -> OsString {
    join(&[
        folders.java().join(TOOLS_JAR),
        folders.java().join(DX),
        PathBuf::from(ASM),
    ])
}

fn join(paths: &[PathBuf]) -> OsString {
    let mut text = OsString::new();
    for (i, path) in paths.iter().enumerate() {
        if i > 0 {
            text.push(":");
        }
        text.push(path);
    }
    text
}

/// A dex jar of this name as the Java part builds it.
pub(crate) fn core_jar(folders: &Folders, name: &str) -> PathBuf {
    folders.java().join("out").join(name)
}

/// Writes the graph and the lists of sources that it needs; returns the graph.
pub(crate) fn write(folders: &Folders, release: Release) -> Result<String> {
    if !hindsight_patches(folders, release, "libcore")?.is_empty() {
        return Err(Error::Other(
            "aosp-patches has patches for libcore, but the lab builds one libcore for both variants"
                .to_owned(),
        ));
    }
    let dir = folders.java();
    let mut tree = Tree::new();
    for file in [
        "src/libcore/openjdk_java_files.bp",
        "src/libcore/non_openjdk_java_files.bp",
    ] {
        tree.load(&dir, Path::new(file))?;
    }
    let oj = sources(&tree, "openjdk_java_files")?;
    let mut libart = sources(&tree, "non_openjdk_java_files")?;
    libart.retain(|file| !file.ends_with(JAVA_9_SOURCE));
    write_if_changed(&dir.join("out/core-oj.list"), list(&oj).as_bytes())?;
    write_if_changed(&dir.join("out/core-libart.list"), list(&libart).as_bytes())?;
    write_if_changed(
        &dir.join("out/jarjar.rules"),
        b"rule com.ibm.icu.** android.icu.@1\n",
    )?;

    let mut tools = Vec::new();
    let folder = dir.join(TOOLS);
    for entry in std::fs::read_dir(&folder)
        .context("list", &folder)?
        .flatten()
    {
        tools.push(format!("{TOOLS}/{}", entry.file_name().to_string_lossy()));
    }
    tools.sort();

    let mut n = Writer::new("out");
    let jar = |classes: &str| {
        format!(
            "(cd {classes} && jar --create --file ../$$(basename $out).new .) && mv $out.new $out"
        )
    };
    n.rule(
        "tools",
        &format!("rm -rf $out.classes && mkdir -p $out.classes && javac -nowarn -d $out.classes -cp {DX}:{ASM} $in && {}", jar("$out.classes")),
        &[("description", "compile the Java tools")],
    );
    n.rule(
        "jarjar",
        &format!("java {SHORT_LIVED} -jar {JARJAR} process out/jarjar.rules $in $out"),
        &[("description", "rename the packages of ICU")],
    );
    // Without the JDK's module system, which -source 8 leaves out, -bootclasspath is all there is.
    n.rule(
        "core_classes",
        &format!(
            "rm -rf $out.classes && mkdir -p $out.classes && javac {} -proc:none -Xmaxwarns 0 \
             -bootclasspath {ICU_CLASSES} -cp out -d $out.classes @out/core-oj.list @out/core-libart.list && {}",
            JAVAC_FLAGS.join(" "),
            jar("$out.classes")
        ),
        &[("description", "compile libcore")],
    );
    n.rule(
        "dex",
        &format!(
            "java -Xmx3g -XX:+UseSerialGC -cp {TOOLS_JAR}:{DX}:{ASM} dev.hindsight.lab.dex.DexJar \
             --core-library --output $out $args"
        ),
        &[("description", "dex $out")],
    );
    n.edge(&Edge {
        rule: "tools",
        outputs: vec![TOOLS_JAR.to_owned()],
        inputs: tools,
        implicit: vec![DX.to_owned(), ASM.to_owned()],
        ..Edge::default()
    });
    n.edge(&Edge {
        rule: "jarjar",
        outputs: vec![ICU_CLASSES.to_owned()],
        inputs: vec![ICU4J.to_owned()],
        implicit: vec!["out/jarjar.rules".to_owned()],
        ..Edge::default()
    });
    let lists = [
        "out/core-oj.list".to_owned(),
        "out/core-libart.list".to_owned(),
    ];
    n.edge(&Edge {
        rule: "core_classes",
        outputs: vec![CORE_CLASSES.to_owned()],
        inputs: lists.to_vec(),
        implicit: oj
            .iter()
            .chain(&libart)
            .cloned()
            .chain([ICU_CLASSES.to_owned()])
            .collect(),
        ..Edge::default()
    });
    // Not all of the tools: a change to those for the run-tests needn't dex the core libraries again.
    let dex_sources: Vec<String> = [
        "ClassFileLowering",
        "ClassPool",
        "Dex",
        "DexJar",
        "LambdaDesugaring",
    ]
    .map(|class| format!("{TOOLS}/{class}.java"))
    .into_iter()
    .chain([DX.to_owned()])
    .collect();
    let resources = "--resources src/libcore/luni/src/main/java --resources src/libcore/ojluni/src/main/resources";
    let arguments = [
        format!("--classes {CORE_CLASSES} --only out/core-oj.list {resources}"),
        format!("--classes {CORE_CLASSES} --only out/core-libart.list"),
        format!("--classes {ICU_CLASSES} --resources {ICU_CLASSES}"),
    ];
    for (name, args) in folders.spec.core_jars().iter().zip(arguments) {
        let input = if args.contains(CORE_CLASSES) {
            CORE_CLASSES
        } else {
            ICU_CLASSES
        };
        n.edge(&Edge {
            rule: "dex",
            outputs: vec![format!("out/{name}")],
            inputs: vec![input.to_owned()],
            implicit: dex_sources.clone(),
            order_only: vec![TOOLS_JAR.to_owned()],
            variables: vec![("args", args)],
        });
    }
    Ok(n.finish())
}

fn sources(tree: &Tree, module: &str) -> Result<Vec<String>> {
    let mut files: Vec<String> = tree
        .sources(module, &Variation::default())?
        .into_iter()
        .filter_map(|source| match source {
            Source::File(path) => Some(path.display().to_string()),
            Source::Output(_) => None,
        })
        .collect();
    files.sort();
    Ok(files)
}

fn list(files: &[String]) -> String {
    files.iter().map(|file| format!("{file}\n")).collect()
}

/// Java code to be compiled for the lab. Paths are relative to the current folder, or absolute.
#[derive(Clone, Debug, Default)]
pub struct JavaLibrary {
    /// Source files to compile.
    pub sources: Vec<PathBuf>,
    /// Folders in which javac looks for the sources of further classes that these refer to; what it
    /// finds is compiled too.
    pub source_path: Vec<PathBuf>,
    /// Class files (folders or jars) to compile against, which are not part of the result.
    pub class_path: Vec<PathBuf>,
    /// Class files (folders or jars, up to Java 17) that become part of the result, and are compiled
    /// against.
    pub class_jars: Vec<PathBuf>,
    /// Folders or jars whose other files become resources of the result.
    pub resources: Vec<PathBuf>,
    /// Whether the code may define classes of `java.*`, as a jar of the boot class path may.
    pub core_library: bool,
    /// Where the class files are kept, for other libraries to compile against; nowhere if `None`.
    pub class_output: Option<PathBuf>,
}

impl Lab {
    /// Compiles Java sources and class files to a dex jar: javac against the core classes, then the
    /// lab's desugaring, then dx. The jar is written whole or not at all.
    ///
    /// # Errors
    /// If javac or dx fails; their messages are in the error.
    pub fn compile_java(&self, library: &JavaLibrary, output: &Path) -> Result<()> {
        let parent = match output.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        create_dir(parent)?;
        let work = tempfile::tempdir_in(parent).context("make a folder in", parent)?;
        let classes = match &library.class_output {
            Some(dir) => {
                // Old class files would become part of the result.
                crate::util::remove(dir)?;
                dir.clone()
            }
            None => work.path().join("classes"),
        };
        create_dir(&classes)?;
        if !library.sources.is_empty() {
            let mut command = Command::new("javac");
            command
                .args(JAVAC_FLAGS)
                .args(["-proc:none", "-Xmaxerrs", "400"]);
            command.arg("-bootclasspath").arg(self.core_classes());
            let class_path: Vec<PathBuf> = library
                .class_path
                .iter()
                .chain(&library.class_jars)
                .cloned()
                .collect();
            // Without a class path javac takes the current folder.
            let class_path = if class_path.is_empty() {
                vec![work.path().to_owned()]
            } else {
                class_path
            };
            command.arg("-cp").arg(join(&class_path));
            if !library.source_path.is_empty() {
                command.arg("-sourcepath").arg(join(&library.source_path));
            }
            command.arg("-d").arg(&classes).args(&library.sources);
            run(
                command,
                &format!("compiling the Java sources of {}", output.display()),
            )?;
        }
        let mut command = Command::new("java");
        command.args([
            "-Xmx3g",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
        ]);
        command
            .arg(self.tools_class_path())
            .arg("dev.hindsight.lab.dex.DexJar");
        command.arg("--output").arg(output);
        command.arg("--classes").arg(&classes);
        for jar in &library.class_jars {
            command.arg("--classes").arg(jar);
        }
        for resources in &library.resources {
            command.arg("--resources").arg(resources);
        }
        if library.core_library {
            command.arg("--core-library");
        }
        run(command, &format!("dexing {}", output.display())).map(drop)
    }
}
