// SPDX-License-Identifier: Apache-2.0
//! The lab's device: hindsightd, and real apps on the lab's ART that talk to it.
//!
//! As on a phone, apps find the service by the path of its socket, and either side may be killed at any time.

mod app;
mod service;

pub use app::DeviceApp;
pub use service::Service;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Result;
use crate::run::{App, Execution, Framework};
use crate::util::{create_dir, run};

/// The apps' class with `main`.
const MAIN_CLASS: &str = "com.example.device.DeviceApp";

/// Where the service of a device has its files.
#[derive(Clone, Debug)]
pub struct Device {
    framework: Framework,
    app: App,
    /// The app's class with `main`.
    main_class: &'static str,
    /// The program hindsightd.
    program: PathBuf,
    folder: PathBuf,
    /// Further options of the service.
    options: Vec<OsString>,
    /// The library that moves the service's clock.
    clock: Option<PathBuf>,
}

impl Device {
    /// A device whose files are in this folder, which must exist, with this program as its service. Compiles the app unless that is
    /// up to date.
    ///
    /// # Errors
    /// If a compiler fails, or a folder cannot be made.
    pub fn new(
        framework: &Framework,
        checkout: &Path,
        program: &Path,
        folder: &Path,
    ) -> Result<Device> {
        let app = framework.compile_app("device", &checkout.join("lab/device"))?;
        Self::with_app(framework, app, MAIN_CLASS, program, folder)
    }

    /// As [`Device::new`], with another app, and its class with `main`. The app must print `ready` when it takes commands.
    ///
    /// # Errors
    /// If a folder cannot be made.
    pub fn with_app(
        framework: &Framework,
        app: App,
        main_class: &'static str,
        program: &Path,
        folder: &Path,
    ) -> Result<Device> {
        let device = Device {
            framework: framework.clone(),
            app,
            main_class,
            program: program.to_owned(),
            folder: folder.to_owned(),
            options: Vec::new(),
            clock: None,
        };
        create_dir(&device.logs())?;
        Ok(device)
    }

    /// The same device with its files in another folder, which must exist.
    ///
    /// # Errors
    /// If a folder cannot be made.
    pub fn at(&self, folder: &Path) -> Result<Device> {
        let device = Device {
            folder: folder.to_owned(),
            clock: None,
            ..self.clone()
        };
        create_dir(&device.logs())?;
        Ok(device)
    }

    /// The same device with further options of the service.
    #[must_use]
    pub fn with_options<S: AsRef<OsStr>>(mut self, options: impl IntoIterator<Item = S>) -> Device {
        let options = options.into_iter();
        self.options
            .extend(options.map(|option| option.as_ref().to_owned()));
        self
    }

    /// The same device with a service that cannot read facts of the system, nor hear of its pressure: while the machine is short of
    /// memory, a service makes no reports and takes rings back.
    #[must_use]
    pub fn without_facts(self) -> Device {
        let nothing = self.folder.join("no-facts");
        self.with_options([OsStr::new("--facts-root"), nothing.as_os_str()])
    }

    /// The same device with a service whose clock of the day can be [set](Device::move_clock).
    ///
    /// # Errors
    /// If the library that does it cannot be compiled, or its file cannot be written.
    pub fn with_own_clock(mut self, checkout: &Path) -> Result<Device> {
        let library = self.folder.join("clock.so");
        let mut command = Command::new("clang-14");
        command.args([
            "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o",
        ]);
        command
            .arg(&library)
            .arg(checkout.join("lab/device/clock.c"));
        run(command, "compiling clock.c")?;
        self.clock = Some(library);
        self.move_clock(0)?;
        Ok(self)
    }

    /// From now on the service's clock of the day is so many seconds ahead of the system's.
    ///
    /// # Errors
    /// If that cannot be written down.
    pub fn move_clock(&self, seconds: i64) -> Result<()> {
        use crate::error::IoContext as _;
        use std::os::unix::fs::FileExt as _;
        let at = self.clock_offset();
        let mut options = std::fs::File::options();
        let options = options.create(true).truncate(false).write(true);
        let file = options.open(&at).context("write", &at)?;
        file.write_all_at(&seconds.to_ne_bytes(), 0)
            .context("write", &at)
    }

    /// The file that the library reads.
    fn clock_offset(&self) -> PathBuf {
        self.folder.join("clock-offset")
    }

    /// The socket that apps connect to.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("apps")
    }

    /// The socket that takes commands.
    pub fn commands(&self) -> PathBuf {
        self.folder.join("commands")
    }

    /// The folder with the reports.
    pub fn store(&self) -> PathBuf {
        self.folder.join("store")
    }

    /// The folder with the logs of service and apps.
    pub fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }

    /// Starts the service with this policy, and waits until it takes commands.
    ///
    /// # Errors
    /// If it cannot be started, or ends at once: then with its log.
    pub fn start_service(&self, policy: Option<&Path>) -> Result<Service> {
        let mut command = Command::new(&self.program);
        command
            .arg("--socket")
            .arg(self.socket())
            .arg("--commands")
            .arg(self.commands())
            .arg("--store")
            .arg(self.store())
            .args(&self.options);
        if let Some(clock) = &self.clock {
            command.env("LD_PRELOAD", clock);
            command.env("HINDSIGHT_CLOCK_OFFSET", self.clock_offset());
        }
        if let Some(policy) = policy {
            command.arg("--policy").arg(policy);
        }
        Service::start(command, self.commands(), self.logs().join("service.txt"))
    }

    /// Starts an app, and waits until its main thread takes commands. `configuration` is Hindsight's, without the service.
    ///
    /// # Errors
    /// If it cannot be started, or ends at once.
    pub fn start_app(&self, execution: Execution, configuration: &str) -> Result<DeviceApp> {
        let mut app = self.spawn_app(execution, configuration)?;
        app.wait_until_ready()?;
        Ok(app)
    }

    /// Starts an app, and does not wait for it.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn spawn_app(&self, execution: Execution, configuration: &str) -> Result<DeviceApp> {
        let mut command = self.app_command(execution);
        let service = self.socket();
        command.env(
            "HINDSIGHT",
            format!(
                "{configuration},service={},dir={}",
                service.display(),
                self.logs().display()
            ),
        );
        DeviceApp::spawn(command, &self.logs())
    }

    /// Starts an app that is not traced and knows no service, and waits until its main thread takes commands.
    ///
    /// # Errors
    /// If it cannot be started, or ends at once.
    pub fn start_untraced_app(&self, execution: Execution) -> Result<DeviceApp> {
        let mut app = DeviceApp::spawn(self.app_command(execution), &self.logs())?;
        app.wait_until_ready()?;
        Ok(app)
    }

    fn app_command(&self, execution: Execution) -> Command {
        self.framework
            .app_command(&self.app, self.main_class, execution)
    }
}
