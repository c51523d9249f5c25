// SPDX-License-Identifier: Apache-2.0
//! The graph of the Java part: core libraries, ICU and the tools that write dex files. Both variants share it.

use super::ninja::{Edge, Writer};
use crate::error::{IoContext, Result};
use crate::layout::{Folders, ASM, CORE_CLASSES, DX, ICU_CLASSES, JAVAC_FLAGS, TOOLS_JAR};
use crate::util::write_if_changed;
use hindsight_blueprint::{Source, Tree, Variation};
use std::path::Path;

/// Debian's jars.
const ICU4J: &str = "/usr/share/java/icu4j.jar";
const JARJAR: &str = "/usr/share/java/jarjar.jar";

const TOOLS: &str = "hindsight/lab/tools/java/dev/hindsight/lab/dex";

/// Hindsight's class in libcore's jar.
const HOOKS: &str = "hindsight/aosp/common/libcore/Android.bp";

/// Uses language features of Java 9, for a test of libcore; `-source 8` refuses it.
const JAVA_9_SOURCE: &str = "/libcore/internal/Java9LanguageFeatures.java";

/// JVM flags of tools that run for seconds.
const SHORT_LIVED: &str = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1";

/// Writes the graph and the lists of sources that it needs; returns the graph.
///
/// Stock ART, too, gets libcore with Hindsight's hooks: it never switches them on.
pub(crate) fn write(folders: &Folders) -> Result<String> {
    let dir = folders.java();
    let mut tree = Tree::new();
    for file in [
        "src/libcore/openjdk_java_files.bp",
        "src/libcore/non_openjdk_java_files.bp",
        HOOKS,
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
    // -source 8 turns the JDK's module system off, so -bootclasspath has all core classes.
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
    // Only the tools that dex the core libraries: a change to the run-tests' tools does not dex them again.
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
