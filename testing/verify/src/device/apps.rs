// SPDX-License-Identifier: Apache-2.0
//! The apps that live now, and how long all of them have lived.

use std::time::{Duration, Instant};

use anyhow::Result;
use hindsight_lab::device::{Device, DeviceApp};
use hindsight_lab::Execution;

use crate::stress::dice::Dice;

/// What apps record: the service decides who records calls. Small rings, so that they wrap.
const CONFIGURATION: &str = "trace=main,events=all,ring=17,rewind=off";

/// A living app.
pub(super) struct App {
    pub(super) process: DeviceApp,
    started: Instant,
    /// The user sees it.
    pub(super) is_foreground: bool,
}

/// All apps.
pub(super) struct Apps<'a> {
    device: &'a Device,
    living: Vec<App>,
    /// How long the apps lived that have ended.
    lived: Duration,
    /// Apps started so far.
    pub(super) started: u64,
}

impl<'a> Apps<'a> {
    pub(super) fn new(device: &'a Device) -> Self {
        Apps {
            device,
            living: Vec::new(),
            lived: Duration::ZERO,
            started: 0,
        }
    }

    /// Starts an app, executed in a random way.
    pub(super) fn start(&mut self, dice: &mut Dice) -> Result<()> {
        let execution = dice.pick(&[Execution::Interpreter, Execution::Jit, Execution::Aot]);
        let process = self.device.start_app(execution, CONFIGURATION)?;
        self.started += 1;
        self.living.push(App {
            process,
            started: Instant::now(),
            is_foreground: false,
        });
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.living.len()
    }

    pub(super) fn any(&mut self, dice: &mut Dice) -> &mut App {
        let index = dice.below(self.living.len() as u64) as usize;
        &mut self.living[index]
    }

    /// Takes an app out: it is about to end.
    pub(super) fn take(&mut self, dice: &mut Dice) -> App {
        let index = dice.below(self.living.len() as u64) as usize;
        let app = self.living.swap_remove(index);
        self.lived += app.started.elapsed();
        app
    }

    /// The user sees this app from now on, and no other one.
    pub(super) fn bring_to_foreground(&mut self, dice: &mut Dice) -> Result<()> {
        let chosen = dice.below(self.living.len() as u64) as usize;
        for (index, app) in self.living.iter_mut().enumerate() {
            let is_foreground = index == chosen;
            if app.is_foreground != is_foreground {
                app.process.ask(match is_foreground {
                    true => "foreground",
                    false => "background",
                })?;
                app.is_foreground = is_foreground;
            }
        }
        Ok(())
    }

    /// How long all apps have lived, together.
    pub(super) fn lived(&self) -> Duration {
        let living: Duration = self.living.iter().map(|app| app.started.elapsed()).sum();
        self.lived + living
    }
}
