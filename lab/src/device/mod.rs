// SPDX-License-Identifier: Apache-2.0
//! The lab's device: hindsightd, and real apps on the lab's ART that talk to it.
//!
//! As on a phone, apps find the service by the path of its socket, and either side may be killed at any time.

mod app;
mod service;

pub use app::DeviceApp;
pub use service::Service;

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::run::{App, Execution, Framework};
use crate::util::create_dir;

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
        };
        create_dir(&device.store())?;
        create_dir(&device.logs())?;
        Ok(device)
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
        Service::start(self, policy)
    }

    /// Starts an app, and waits until its main thread takes commands. `configuration` is Hindsight's, without the service.
    ///
    /// # Errors
    /// If it cannot be started, or ends at once.
    pub fn start_app(&self, execution: Execution, configuration: &str) -> Result<DeviceApp> {
        let mut command = (self.framework).app_command(&self.app, self.main_class, execution);
        let service = self.socket();
        command.env(
            "HINDSIGHT",
            format!(
                "{configuration},service={},dir={}",
                service.display(),
                self.logs().display()
            ),
        );
        DeviceApp::start(command, &self.logs())
    }
}
