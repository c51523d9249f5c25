// SPDX-License-Identifier: Apache-2.0
//! `emulator-tests --target lab|avd|cuttlefish|phone`: see docs/rom.md.

use anyhow::{bail, Context as _, Result};
use clap::{Parser, ValueEnum};
use hindsight_emulator_tests::adb::Adb;
use hindsight_emulator_tests::junit::{report, Outcome};
use hindsight_emulator_tests::suite::{run, Options};
use hindsight_emulator_tests::target::Target;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

#[derive(Parser)]
#[command(
    name = "emulator-tests",
    about = "Boots a build, traces a program on it, and checks the trace"
)]
struct Arguments {
    /// What to test
    #[arg(long, value_enum)]
    target: Kind,
    /// The running device, as 'adb devices' shows it; none is started then
    #[arg(long)]
    serial: Option<String>,
    /// Name of the AVD to start
    #[arg(long)]
    avd: Option<String>,
    /// The test program, a jar with classes.dex; by default it is compiled with the lab's tools
    #[arg(long)]
    program: Option<PathBuf>,
    /// The app whose main looper stalls, an APK; by default it is built with the lab's tools
    #[arg(long)]
    apk: Option<PathBuf>,
    /// How long booting may take, in seconds
    #[arg(long, default_value_t = 600)]
    boot_deadline: u64,
    /// How many pairs of runs, with tracing off and on, are compared
    #[arg(long, default_value_t = 10)]
    pairs: usize,
    /// Port of the adb server
    #[arg(long, env = "ANDROID_ADB_SERVER_PORT", default_value_t = 5037)]
    adb_port: u16,
    /// The file of the JUnit report
    #[arg(long, default_value = "target/emulator-tests.xml")]
    junit: PathBuf,
}

/// How long the app may take until it has saved a trace; it takes two seconds.
const APP_DEADLINE: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Lab,
    Avd,
    Cuttlefish,
    Phone,
}

fn main() -> ExitCode {
    match test(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("emulator-tests: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn test(arguments: &Arguments) -> Result<bool> {
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.adb_port));
    let adb = |kind, launch: Option<Vec<&str>>| -> Box<dyn Target> {
        // A named device is running already.
        let launch = launch.filter(|_| arguments.serial.is_none());
        let launch = launch.map(|words| words.into_iter().map(str::to_owned).collect());
        Box::new(Adb::new(
            kind,
            server,
            arguments.serial.clone(),
            launch,
            Duration::from_secs(1),
        ))
    };
    let mut target = match arguments.target {
        Kind::Lab => lab()?,
        Kind::Avd => match (&arguments.avd, &arguments.serial) {
            (Some(name), _) => adb(
                "avd",
                Some(vec![
                    "emulator",
                    "-avd",
                    name,
                    "-no-window",
                    "-no-audio",
                    "-no-boot-anim",
                    "-read-only",
                ]),
            ),
            (None, Some(_)) => adb("avd", None),
            (None, None) => {
                bail!("no AVD is named: --avd NAME starts one, --serial NAME uses a running one")
            }
        },
        Kind::Cuttlefish => adb("cuttlefish", Some(vec!["launch_cvd", "--daemon"])),
        Kind::Phone => adb("phone", None),
    };
    let dir = tempfile::tempdir()?;
    let jar = match &arguments.program {
        Some(jar) => jar.clone(),
        None => compile(&dir.path().join("boot-test.jar"))?,
    };
    let apk = match &arguments.apk {
        Some(apk) => Some(apk.clone()),
        None => build_app(dir.path())?,
    };
    let options = Options {
        boot_deadline: Duration::from_secs(arguments.boot_deadline),
        pairs: arguments.pairs,
        apk,
        app_deadline: APP_DEADLINE,
        poll: Duration::from_millis(200),
    };
    let cases = run(target.as_mut(), &jar, &options);
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for case in &cases {
        let (word, text) = match &case.outcome {
            Outcome::Passed(text) => (&mut passed, text),
            Outcome::Failed(text) => (&mut failed, text),
            Outcome::Skipped(text) => (&mut skipped, text),
        };
        *word += 1;
        let word = match case.outcome {
            Outcome::Passed(_) => "ok",
            Outcome::Failed(_) => "FAILED",
            Outcome::Skipped(_) => "skipped",
        };
        println!(
            "{}: {word} ({:.1} s) {text}",
            case.name,
            case.took.as_secs_f64()
        );
    }
    write(&arguments.junit, &report(&target.name(), &cases))?;
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    Ok(failed == 0)
}

fn write(path: &Path, text: &str) -> Result<()> {
    let dir = path
        .parent()
        .filter(|dir| !dir.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let write = || -> std::io::Result<()> {
        std::fs::create_dir_all(dir)?;
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        std::io::Write::write_all(&mut file, text.as_bytes())?;
        file.persist(path)?;
        Ok(())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(feature = "lab")]
fn lab() -> Result<Box<dyn Target>> {
    use hindsight_emulator_tests::lab::{LabTarget, Variant};
    Ok(Box::new(LabTarget::new(Variant::Hindsight)?))
}

#[cfg(not(feature = "lab"))]
fn lab() -> Result<Box<dyn Target>> {
    bail!("this was built without the feature 'lab'")
}

#[cfg(feature = "lab")]
fn compile(jar: &Path) -> Result<PathBuf> {
    let java =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("java/dev/hindsight/boottest/BootTest.java");
    use hindsight_emulator_tests::lab::{LabTarget, Variant};
    let lab = LabTarget::new(Variant::Hindsight).context(
        "the lab compiles the test program; without it, give a compiled one with --program",
    )?;
    lab.compile(&java, jar)?;
    Ok(jar.to_owned())
}

/// Builds the APK in a folder.
#[cfg(feature = "lab")]
fn build_app(dir: &Path) -> Result<Option<PathBuf>> {
    use hindsight_emulator_tests::lab::{LabTarget, Variant};
    let apk = dir.join("boot-test.apk");
    LabTarget::new(Variant::Hindsight)?.build_app(dir, &apk, None)?;
    Ok(Some(apk))
}

/// Without the lab there is no compiler: the steps on the app are skipped.
#[cfg(not(feature = "lab"))]
fn build_app(_dir: &Path) -> Result<Option<PathBuf>> {
    Ok(None)
}

#[cfg(not(feature = "lab"))]
fn compile(_jar: &Path) -> Result<PathBuf> {
    bail!("this was built without the feature 'lab': give the test program with --program")
}
