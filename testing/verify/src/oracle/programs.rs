// SPDX-License-Identifier: Apache-2.0
//! The programs of the oracle, and the methods that compiled code need not record.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{ensure, Context as _, Result};
use hindsight_lab::{run_test::Layout, JavaLibrary, Lab};

use super::options::TrivialMethods;
use crate::trivial::Trivial;

/// A program.
pub(super) struct Program {
    /// The run-test's name, or the program's class.
    pub(super) name: String,
    pub(super) jar: PathBuf,
    /// The class with `main`.
    pub(super) class: String,
    pub(super) arguments: Vec<String>,
    /// `java.library.path`.
    pub(super) libraries: String,
    /// A line of its correct output.
    pub(super) prints: Option<String>,
    /// The reason for leaving it out.
    pub(super) not_comparable: Option<&'static str>,
    /// Whether it is a failure if it can't be compared. Many of ART's tests can't.
    pub(super) comparable: bool,
}

impl Program {
    /// The name of its main method in traces.
    pub(super) fn main(&self) -> String {
        main_of(&self.class)
    }

    /// Its jars. Some run-tests load more classes from a second one beside theirs.
    pub(super) fn jars(&self) -> Vec<PathBuf> {
        let more = self.jar.with_file_name(format!("{}-ex.jar", self.name));
        let more = more.exists().then_some(more);
        [self.jar.clone()].into_iter().chain(more).collect()
    }
}

/// The name of a class's main method in traces.
pub(super) fn main_of(class: &str) -> String {
    format!("{class}.main([Ljava/lang/String;)V")
}

/// Run-tests that cannot be compared, with the reasons.
const NOT_COMPARABLE: [(&str, &str); 1] = [(
    "136-daemon-jni-shutdown",
    "their main thread is detached and attached again: one thread to ART's tracer, two to Hindsight's",
)];

/// Whether a method, `class.name(signature)`, belongs to a class that `java.lang.reflect.Proxy` makes: `$Proxy7`.
pub(super) fn is_of_proxy(method: &str) -> bool {
    let Some((class, _)) = method.split('(').next().and_then(|m| m.rsplit_once('.')) else {
        return false;
    };
    let simple = class.rsplit('.').next().unwrap_or(class);
    let number = simple.strip_prefix("$Proxy").unwrap_or_default();
    !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
}

/// The programs in `lab/oracle`, one a file.
pub(super) fn own(lab: &Lab, checkout: &Path, folder: &Path) -> Result<Vec<Program>> {
    let source = checkout.join("lab/oracle");
    let mut sources = Vec::new();
    for entry in fs::read_dir(&source).with_context(|| format!("{}", source.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|x| x == "java") {
            sources.push(path);
        }
    }
    sources.sort();
    let jar = folder.join("own.jar");
    let library = JavaLibrary {
        sources: sources.clone(),
        ..JavaLibrary::default()
    };
    lab.compile_java(&library, &jar)?;
    let class = |path: &PathBuf| Some(path.file_stem()?.to_str()?.to_owned());
    Ok(sources
        .iter()
        .filter_map(class)
        .map(|class| Program {
            name: class.clone(),
            jar: jar.clone(),
            class,
            arguments: Vec::new(),
            libraries: String::new(),
            prints: None,
            not_comparable: None,
            comparable: true,
        })
        .collect())
}

/// The run-tests that `lab run-test` has built, and the names of the ones with a script of their own, which may run
/// something else.
pub(super) fn run_tests(lab: &Lab) -> Result<(Vec<Program>, BTreeSet<String>)> {
    let layout = Layout::of(lab);
    let builds = layout.cache.join("builds");
    let out = &layout.host_out;
    let libraries = format!(
        "{0}/{1}:{0}/{2}",
        out.display(),
        lab.isa().library_dir(),
        lab.isa().native_test_dir()
    );
    // The newest of several builds.
    let mut newest: BTreeMap<String, (std::time::SystemTime, PathBuf)> = BTreeMap::new();
    let mut scripted = BTreeSet::new();
    for entry in fs::read_dir(&builds)
        .with_context(|| format!("{}: run 'cargo xtask lab run-test --all'", builds.display()))?
    {
        let folder = entry?.path();
        let Some((name, _)) = folder
            .file_name()
            .and_then(|name| name.to_str()?.rsplit_once('-'))
        else {
            continue;
        };
        let jar = folder.join("tree").join(name).with_extension("jar");
        let Ok(made) = fs::metadata(&jar).and_then(|m| m.modified()) else {
            continue;
        };
        if folder.join("tree/default-run").exists() {
            scripted.insert(name.to_owned());
            continue;
        }
        let known = newest.entry(name.to_owned()).or_insert((made, jar.clone()));
        if known.0 < made {
            *known = (made, jar);
        }
    }
    let programs = newest
        .into_iter()
        .map(|(name, (_, jar))| Program {
            not_comparable: NOT_COMPARABLE
                .iter()
                .find_map(|&(test, why)| (test == name).then_some(why)),
            name,
            jar,
            class: "Main".to_owned(),
            arguments: vec!["arttest".to_owned()],
            libraries: libraries.clone(),
            prints: None,
            comparable: false,
        })
        .collect();
    Ok((programs, scripted))
}

/// Methods with special rules.
#[derive(Clone)]
pub(super) struct Exempt {
    /// `class.name(signature)` of methods that the compiler has code of its own for.
    intrinsics: HashSet<String>,
    /// `class.name` of native methods that are called without a transition.
    critical: HashSet<String>,
    /// `class.name` of methods that tell a run-test how it is executed.
    asks: HashSet<String>,
    /// Methods without trace points because they are trivial; `None` if those have trace points, too.
    pub(super) trivial: Option<Trivial>,
}

impl Exempt {
    /// Reads the lists from the sources of the lab, and the trivial methods from its boot class path.
    pub(super) fn of(lab: &Lab, trivial: TrivialMethods) -> Result<Exempt> {
        let list = lab.source_dir("art").join("runtime/intrinsics_list.h");
        let text = fs::read_to_string(&list).with_context(|| format!("{}", list.display()))?;
        let intrinsics: HashSet<String> = text.lines().filter_map(intrinsic).collect();
        ensure!(
            !intrinsics.is_empty(),
            "{} has no intrinsics",
            list.display()
        );
        let mut critical = HashSet::new();
        let libcore = lab.source_dir("libcore");
        for sources in [
            "ojluni/src/main/java",
            "libart/src/main/java",
            "luni/src/main/java",
            "dalvik/src/main/java",
        ] {
            let root = libcore.join(sources);
            if root.exists() {
                find_critical(&root, &root, &mut critical)?;
            }
        }
        // Some run-tests have such methods of their own.
        let tests = lab.source_dir("art").join("test");
        for test in fs::read_dir(&tests).with_context(|| format!("{}", tests.display()))? {
            let root = test?.path().join("src");
            if root.is_dir() {
                find_critical(&root, &root, &mut critical)?;
            }
        }
        let mut asks = HashSet::new();
        for file in ["runtime_state.cc", "stack_inspect.cc"] {
            let file = tests.join("common").join(file);
            let text = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
            asks.extend(asked(&text));
        }
        Ok(Exempt {
            intrinsics,
            critical,
            asks,
            trivial: match trivial {
                TrivialMethods::Traced => None,
                TrivialMethods::LeftOut => {
                    let jars = lab.boot_class_path().into_iter().map(|jar| jar.path);
                    Some(Trivial::read(lab, &jars.collect::<Vec<_>>())?)
                }
            },
        })
    }

    #[cfg(test)]
    pub(super) fn for_tests(intrinsics: &[&str], critical: &[&str]) -> Exempt {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Exempt {
            intrinsics: set(intrinsics),
            critical: set(critical),
            asks: HashSet::new(),
            trivial: None,
        }
    }

    /// The same for a program of these jars.
    pub(super) fn with(&self, lab: &Lab, jars: &[PathBuf]) -> Result<Exempt> {
        let mut exempt = self.clone();
        if let Some(trivial) = &mut exempt.trivial {
            for jar in jars {
                trivial.add(lab, jar)?;
            }
        }
        Ok(exempt)
    }

    /// Whether a method has no trace points; `None` if a method of the same name may have some.
    pub(super) fn is_left_out(&self, name: &str) -> Option<bool> {
        let trivial = self.trivial.as_ref();
        trivial.map_or(Some(false), |trivial| trivial.get(name))
    }

    pub(super) fn is_intrinsic(&self, name: &str) -> bool {
        self.intrinsics.contains(name)
    }

    /// Whether a caller of the method may depend on the mode of execution.
    pub(super) fn asks_for_mode(&self, name: &str) -> bool {
        self.asks.contains(name.split('(').next().unwrap_or(name))
    }

    pub(super) fn is_critical_native(&self, name: &str) -> bool {
        self.critical
            .contains(name.split('(').next().unwrap_or(name))
    }
}

/// Reads `V(MathAbs, kStatic, …, "Ljava/lang/Math;", "abs", "(I)I") \`.
fn intrinsic(line: &str) -> Option<String> {
    if !line.trim_start().starts_with("V(") {
        return None;
    }
    let mut strings = line.split('"').skip(1).step_by(2);
    let class = strings.next()?.strip_prefix('L')?.strip_suffix(';')?;
    let (name, signature) = (strings.next()?, strings.next()?);
    Some(format!("{}.{name}{signature}", class.replace('/', ".")))
}

/// The methods of the run-tests' class `Main` in a file of their native library.
fn asked(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split("Java_Main_").skip(1).map(|after| {
        let name = after.split(|c: char| !c.is_ascii_alphanumeric()).next();
        format!("Main.{}", name.unwrap_or_default())
    })
}

/// The names of the methods with the annotation `@CriticalNative` in the Java files of a folder.
fn find_critical(root: &Path, folder: &Path, found: &mut HashSet<String>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("{}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            find_critical(root, &path, found)?;
            continue;
        }
        if path.extension().is_none_or(|x| x != "java") {
            continue;
        }
        let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
        let class = path.with_extension("");
        let class = class
            .strip_prefix(root)?
            .to_string_lossy()
            .replace('/', ".");
        for after in text.split("@CriticalNative").skip(1) {
            let declared = after.split('(').next().unwrap_or_default();
            if let Some(name) = declared.split_whitespace().last() {
                found.insert(format!("{class}.{name}"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{asked, intrinsic, is_of_proxy};

    #[test]
    fn names_of_proxies() {
        assert!(is_of_proxy("$Proxy0.run()V"));
        assert!(is_of_proxy("a.b.$Proxy12.<init>(La/B;)V"));
        assert!(!is_of_proxy("a.$Proxy.run()V"));
        assert!(!is_of_proxy("a.Proxy1.run()V"));
    }

    #[test]
    fn natives_of_the_run_tests() {
        let text =
            "JNIEXPORT jboolean JNICALL Java_Main_hasJit(JNIEnv*, jclass) {}\n Java_Main_isX_(";
        assert_eq!(asked(text).collect::<Vec<_>>(), ["Main.hasJit", "Main.isX"]);
    }

    #[test]
    fn a_line_of_the_list() {
        let line = r#"  V(MathAbsInt, kStatic, kNeedsEnvironmentOrCache, kNoSideEffects, kNoThrow, "Ljava/lang/Math;", "abs", "(I)I") \"#;
        assert_eq!(intrinsic(line).as_deref(), Some("java.lang.Math.abs(I)I"));
        assert_eq!(intrinsic("// V(x"), None);
    }
}
