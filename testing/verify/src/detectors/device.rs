// SPDX-License-Identifier: Apache-2.0
//! A service and an app of one case.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context as _, Result};
use hindsight_lab::device::{Device, DeviceApp, Service};
use hindsight_lab::{Execution, Framework};
use serde::Deserialize;

/// The longest wait for anything, on a machine that does much else.
const LIMIT: Duration = Duration::from_secs(300);
/// A detector that has not fired after this time has missed something.
const MISSED_AFTER: Duration = Duration::from_secs(60);
/// What apps record: the service decides who records calls. Small rings, as their contents do not matter here.
const CONFIGURATION: &str = "trace=main,events=all,ring=17";
/// The app's class with `main`.
const MAIN_CLASS: &str = "com.example.detectors.Corpus";
/// The detector of reports that users ask for.
const REQUESTED: &str = "requested";

/// What all cases share.
pub(super) struct Corpus {
    framework: Framework,
    app: hindsight_lab::App,
    program: PathBuf,
    folder: PathBuf,
    execution: Execution,
}

/// A line of the answer to `reports`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Report {
    pub(super) report: u64,
    pub(super) group: u64,
    pub(super) tid: u32,
    pub(super) detector: String,
    pub(super) reason: String,
    pub(super) pid: u32,
}

#[derive(Deserialize)]
struct Status {
    looks: u64,
    engine: Engine,
}

#[derive(Deserialize)]
struct Engine {
    processes: Vec<Process>,
}

#[derive(Deserialize)]
struct Process {
    pid: u32,
    is_foreground: bool,
    report: u64,
}

impl Corpus {
    pub(super) fn new(
        framework: &Framework,
        checkout: &Path,
        program: &Path,
        folder: &Path,
        execution: Execution,
    ) -> Result<Self> {
        let app = framework.compile_app("detectors", &checkout.join("lab/detectors"))?;
        Ok(Corpus {
            framework: framework.clone(),
            app,
            program: program.to_owned(),
            folder: folder.to_owned(),
            execution,
        })
    }

    /// Starts the service of a case of apps' detectors, with these rules. No fact of the system can be read: while a machine is short
    /// of memory, which the service may hear at any time, it makes no reports.
    pub(super) fn start(&self, case: &str, rules: &str) -> Result<CaseDevice> {
        let nothing = self.folder_of(case)?.join("facts");
        std::fs::create_dir_all(&nothing)
            .with_context(|| format!("cannot make {}", nothing.display()))?;
        self.start_with(case, rules, &nothing)
    }

    /// The folder of a case.
    pub(super) fn folder_of(&self, case: &str) -> Result<PathBuf> {
        let folder = self.folder.join(case);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }

    /// As [`start`](Self::start), and the service's detectors read facts of the system in this folder.
    pub(super) fn start_with(&self, case: &str, rules: &str, facts: &Path) -> Result<CaseDevice> {
        let folder = self.folder_of(case)?;
        let device = Device::with_app(
            &self.framework,
            self.app.clone(),
            MAIN_CLASS,
            &self.program,
            &folder,
        )?;
        let device = device.with_options([OsStr::new("--facts-root"), facts.as_os_str()]);
        let policy = folder.join("policy.toml");
        std::fs::write(&policy, policy_text(rules))
            .with_context(|| format!("cannot write {}", policy.display()))?;
        let service = device.start_service(Some(&policy))?;
        Ok(CaseDevice {
            device,
            service,
            policy,
            execution: self.execution,
        })
    }
}

/// A policy without limits on reports, with no detector but those of these rules.
fn policy_text(rules: &str) -> String {
    let of_apps = hindsight_trace_format::protocol::DETECTORS.iter();
    let of_apps = of_apps
        .map(|spec| spec.name)
        .filter(|name| *name != "slow-method");
    let off = of_apps
        .chain(["thermal"])
        .filter(|name| !rules.contains(&format!(".{name}]")))
        .map(|name| format!("[detectors.{name}]\nenabled = false\n"));
    let off: String = off.collect();
    format!("{POLICY}{off}{}", never_quiet(rules))
}

/// The same rules, and a detector may fire again at once. A busy machine can make it fire where it must not; such a try is made
/// again, and must not hide what comes after it.
fn never_quiet(rules: &str) -> String {
    let has_quiet = |line: &str| {
        let all = hindsight_trace_format::protocol::DETECTORS.iter();
        let mut all = all.filter(|spec| spec.parameters.iter().any(|p| p.key == "quiet-seconds"));
        let name = line.trim_matches(['[', ']']).strip_prefix("detectors.");
        all.any(|spec| name == Some(spec.name))
    };
    let line = |line: &str| match has_quiet(line) {
        true => format!("{line}\nquiet-seconds = 0\n"),
        false => format!("{line}\n"),
    };
    rules.lines().map(line).collect()
}

const POLICY: &str = r#"
version = 1

[memory]
budget-mib = 4096
uid-share = 100
# No app waits for another one's ring.
call-rings = 8

[reports]
queue = 64

[limits]
device = 1000
per-uid = 1000
per-detector = 1000

[consent.end-user]
unasked = "full"

"#;

/// The service and the files of a case.
pub(super) struct CaseDevice {
    device: Device,
    service: Service,
    policy: PathBuf,
    execution: Execution,
}

impl CaseDevice {
    /// Starts an app in the foreground, which follows the rules when this returns.
    pub(super) fn app(&self) -> Result<CaseApp<'_>> {
        self.start(CONFIGURATION)
    }

    /// The same, with further items of its configuration.
    pub(super) fn app_with(&self, more: &str) -> Result<CaseApp<'_>> {
        self.start(&format!("{CONFIGURATION},{more}"))
    }

    fn start(&self, configuration: &str) -> Result<CaseApp<'_>> {
        let began = Instant::now();
        let process = self.device.start_app(self.execution, configuration)?;
        let mut app = CaseApp {
            device: self,
            process,
            began,
        };
        app.ask("foreground")?;
        let pid = app.pid();
        self.until("the app is in the foreground", || {
            let known = self.status()?.engine.processes;
            Ok(known.iter().any(|p| p.pid == pid && p.is_foreground))
        })?;
        Ok(app)
    }

    /// Puts other rules in force. An error is the service's refusal.
    pub(super) fn load(&self, rules: &str) -> Result<()> {
        std::fs::write(&self.policy, policy_text(rules))
            .with_context(|| format!("cannot write {}", self.policy.display()))?;
        self.service
            .ask(&format!("policy {}", self.policy.display()))?;
        Ok(())
    }

    /// The trace of a report.
    pub(super) fn trace(&self, report: &Report) -> PathBuf {
        let name = format!("{}.hindsight", report.report);
        self.device.store().join(name)
    }

    fn status(&self) -> Result<Status> {
        let lines = self.service.ask("status")?;
        let line = lines.first().context("the service has no status")?;
        serde_json::from_str(line).with_context(|| format!("'{line}' is no status"))
    }

    /// All reports that detectors have made, the oldest first.
    pub(super) fn reports(&self) -> Result<Vec<Report>> {
        let lines = self.service.ask("reports")?;
        let parse = |line: &String| {
            serde_json::from_str(line).with_context(|| format!("'{line}' is no report"))
        };
        let all: Vec<Report> = lines.iter().map(parse).collect::<Result<_>>()?;
        Ok(all
            .into_iter()
            .filter(|r| r.detector != REQUESTED)
            .collect())
    }

    /// Waits until the service's own detectors have looked so many times more.
    pub(super) fn wait_for_looks(&self, more: u64) -> Result<()> {
        let enough = self.status()?.looks + more;
        self.until("the service's detectors look at facts", || {
            Ok(self.status()?.looks >= enough)
        })
    }

    /// Waits until there are more reports than this, or for so long that there will be none.
    pub(super) fn wait_for_more_than(&self, count: usize) -> Result<()> {
        let end = Instant::now() + MISSED_AFTER;
        while self.reports()?.len() <= count && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Waits until this is so.
    pub(super) fn until(&self, what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
        let end = Instant::now() + LIMIT;
        while !is_so()? {
            if Instant::now() > end {
                bail!(
                    "it was not seen that {what}; the service's log is {}",
                    self.service.log().display()
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Waits until no report of the process is under way.
    fn until_written(&self, pid: u32) -> Result<()> {
        self.until("all reports are written", || {
            let known = self.status()?.engine.processes;
            Ok(known.iter().all(|p| p.pid != pid || p.report == 0))
        })
    }
}

/// The app of a case.
pub(super) struct CaseApp<'a> {
    device: &'a CaseDevice,
    process: DeviceApp,
    began: Instant,
}

impl CaseApp<'_> {
    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Tells the app to serve other processes. Returns the port.
    pub(super) fn serve(&mut self) -> Result<u16> {
        let answer = self.process.question("serve")?;
        let port = answer
            .strip_prefix("port ")
            .and_then(|port| port.parse().ok());
        port.with_context(|| format!("the app answers 'serve' by '{answer}'"))
    }

    /// How long it has lived.
    pub(super) fn lived(&self) -> Duration {
        self.began.elapsed()
    }

    /// Tells the app to do something, and waits until it has. Returns how long it took, by the app's clock.
    pub(super) fn ask(&mut self, command: &str) -> Result<Duration> {
        let answer = self.process.question(command)?;
        let millis = answer.strip_prefix("ok ").and_then(|ms| ms.parse().ok());
        let millis =
            millis.with_context(|| format!("the app answers '{command}' by '{answer}'"))?;
        Ok(Duration::from_millis(millis))
    }

    /// Waits until the app has done all that it was told by the service, and the service has heard all that the app's control thread
    /// has said so far: a report is asked for, which the same threads make in the same order.
    pub(super) fn settle(&self) -> Result<()> {
        let pid = self.pid();
        self.device.until_written(pid)?;
        let asked = format!("report {pid} the case asks whether there is anything");
        let answer = self.device.service.ask(&asked)?;
        ensure!(
            answer.iter().any(|line| line.contains("\"problem\":null")),
            "the app has recorded nothing: {answer:?}"
        );
        self.device.until_written(pid)
    }

    /// Kills it, unless it ends by itself.
    pub(super) fn kill(&mut self) {
        self.process.kill();
    }

    /// Waits until it has ended by itself, and the service has forgotten it.
    pub(super) fn wait_for_end(&mut self) -> Result<()> {
        let pid = self.pid();
        self.device.until("the app's end is known", || {
            let known = self.device.status()?.engine.processes;
            Ok(known.iter().all(|p| p.pid != pid))
        })?;
        // Not before: it closes the app's input, at whose end the app would end by itself.
        self.process.wait()?;
        Ok(())
    }
}
