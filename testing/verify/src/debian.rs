// SPDX-License-Identifier: Apache-2.0
//! Third-party programs: Debian's Java packages with the drivers in `lab/oracle/debian`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hindsight_lab::{JavaLibrary, Lab};

/// A driver, its package folder as in `sources.toml`, and the jar in it.
const DRIVERS: [(&str, &str, &str); 8] = [
    ("AntlrTool", "antlr", "antlr.jar"),
    ("BeanShellScript", "bsh", "bsh.jar"),
    ("CommonsMath", "commons-math3", "commons-math3.jar"),
    ("GsonTree", "gson", "gson.jar"),
    ("H2Database", "h2", "h2.jar"),
    ("JsoupPage", "jsoup", "jsoup.jar"),
    ("KxmlDocument", "kxml2", "kxml2.jar"),
    ("RhinoScript", "rhino", "js.jar"),
];

/// A program.
pub struct DebianProgram {
    /// Its class with `main`.
    pub class: String,
    /// The jar with it and its package.
    pub jar: PathBuf,
    /// A line of its correct output.
    pub prints: Option<String>,
}

/// The programs, named like their drivers. Downloads missing packages, and compiles changed ones: a minute
/// or two for all of them.
///
/// # Errors
/// If a package cannot be downloaded, or does not compile.
pub fn programs(
    lab: &Lab,
    checkout: &Path,
    folder: &Path,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<DebianProgram>> {
    let data = checkout.join("lab/oracle/debian");
    let folder = folder.join("debian");
    let packages = folder.join("packages");
    // A class of the JDK that Android lacks.
    let platform = data.join("platform/javax/lang/model/SourceVersion.java");
    let drivers: Vec<_> = DRIVERS.iter().filter(|driver| wanted(driver.0)).collect();
    if drivers.is_empty() {
        return Ok(Vec::new());
    }
    fs::create_dir_all(&packages).with_context(|| format!("cannot make {}", packages.display()))?;
    lab.unpack_binaries(&data, &packages)?;
    drivers
        .into_iter()
        .map(|&(driver, package, jar)| {
            let source = data.join(driver).with_extension("java");
            let from = packages.join(package);
            let result = folder.join(driver).with_extension("jar");
            let read = |path: &Path| {
                fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
            };
            let text = read(&source)?;
            let stamp = text.clone() + &read(&platform)? + &read(&from.join("package"))?;
            let stamp_file = result.with_extension("inputs");
            if !result.exists() || fs::read_to_string(&stamp_file).ok().as_ref() != Some(&stamp) {
                eprintln!("verify: compiling {driver} with {jar} to dex code");
                let library = JavaLibrary {
                    sources: vec![source, platform.clone()],
                    class_jars: vec![from.join("usr/share/java").join(jar)],
                    resources: vec![from.join("usr/share/java").join(jar)],
                    ..JavaLibrary::default()
                };
                lab.compile_java(&library, &result)
                    .with_context(|| format!("cannot compile {driver}"))?;
                // The stamp comes last: an interrupted compilation leaves none.
                fs::write(&stamp_file, &stamp)
                    .with_context(|| format!("cannot write {}", stamp_file.display()))?;
            }
            Ok(DebianProgram {
                class: driver.to_owned(),
                jar: result,
                prints: prints(&text),
            })
        })
        .collect()
}

/// The expected output in a driver's comment: its output on OpenJDK.
fn prints(driver: &str) -> Option<String> {
    let line = driver
        .lines()
        .find_map(|line| line.strip_prefix("// Prints: "));
    line.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{prints, DRIVERS};

    #[test]
    fn every_driver_says_what_it_prints() {
        for (driver, _, _) in DRIVERS {
            let file = format!(
                "{}/lab/oracle/debian/{driver}.java",
                env!("HINDSIGHT_CHECKOUT")
            );
            let text = std::fs::read_to_string(file).unwrap();
            assert!(
                prints(&text).is_some_and(|line| !line.is_empty()),
                "{driver}"
            );
        }
    }
}
