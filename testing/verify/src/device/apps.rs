// SPDX-License-Identifier: Apache-2.0
//! The apps that live now, and how long all of them have lived.

use std::time::{Duration, Instant};

use anyhow::Result;
use hindsight_lab::device::{Device, DeviceApp};
use hindsight_lab::Execution;

use crate::stress::dice::Dice;

/// What apps record: the service decides who records calls. Small rings, so that they wrap.
pub(super) const CONFIGURATION: &str = "trace=main,events=all,ring=17,rewind=off";

/// A living app.
pub(super) struct App {
    pub(super) process: DeviceApp,
    started: Instant,
    /// The user sees it.
    pub(super) is_foreground: bool,
    execution: Execution,
    /// What it was told to do. Without anything its reports are false.
    told: Vec<String>,
    /// It lives until the end.
    stays: bool,
}

impl App {
    /// Tells it to do something.
    pub(super) fn tell(&mut self, command: &str) -> Result<()> {
        self.told.push(command.to_owned());
        Ok(self.process.tell(command)?)
    }

    /// Tells it to do something, and waits for that.
    pub(super) fn ask(&mut self, command: &str) -> Result<()> {
        self.told.push(command.to_owned());
        Ok(self.process.ask(command)?)
    }

    /// What it has done in its life, for people.
    pub(super) fn history(&self) -> String {
        let told = self.told.iter().rev().take(6).rev();
        let told: Vec<&str> = told.map(String::as_str).collect();
        format!(
            "{:?}, {:.1} s: {}",
            self.execution,
            self.started.elapsed().as_secs_f64(),
            told.join(", ")
        )
    }
}

/// All apps.
pub(super) struct Apps<'a> {
    device: &'a Device,
    /// The oldest first.
    living: Vec<App>,
    /// So many of the oldest apps are left alone.
    quiet: usize,
    /// How long the apps lived that have ended.
    lived: Duration,
    /// How long quiet apps did steady work, together.
    pub(super) steady: Duration,
    /// Apps started so far.
    pub(super) started: u64,
}

impl<'a> Apps<'a> {
    pub(super) fn new(device: &'a Device, quiet: usize) -> Self {
        Apps {
            device,
            quiet,
            living: Vec::new(),
            lived: Duration::ZERO,
            steady: Duration::ZERO,
            started: 0,
        }
    }

    /// Starts an app, executed in a random way.
    pub(super) fn start(&mut self, dice: &mut Dice) -> Result<u32> {
        let execution = dice.pick(&[Execution::Interpreter, Execution::Jit, Execution::Aot]);
        let process = self.device.start_app(execution, CONFIGURATION)?;
        let pid = process.pid();
        self.started += 1;
        self.living.push(App {
            process,
            started: Instant::now(),
            is_foreground: false,
            execution,
            told: Vec::new(),
            stays: false,
        });
        Ok(pid)
    }

    pub(super) fn len(&self) -> usize {
        self.living.len()
    }

    /// An app that may be disturbed, and may end: not one of the first ones, which stay quiet.
    fn choose(&self, dice: &mut Dice) -> usize {
        let from = self.quiet.min(self.living.len().saturating_sub(1));
        from + dice.below((self.living.len() - from) as u64) as usize
    }

    pub(super) fn any(&mut self, dice: &mut Dice) -> &mut App {
        let index = self.choose(dice);
        &mut self.living[index]
    }

    /// Takes an app out: it is about to end. Another one takes its place later.
    pub(super) fn take(&mut self, dice: &mut Dice) -> App {
        let mut index = self.choose(dice);
        while self.living[index].stays {
            index = self.choose(dice);
        }
        let app = self.living.remove(index);
        self.lived += app.started.elapsed();
        app
    }

    /// The last app lives until the end from now on. Returns its process.
    pub(super) fn keep_last(&mut self) -> Option<u32> {
        let last = self.living.last_mut()?;
        last.stays = true;
        Some(last.process.pid())
    }

    /// One of the apps that are left alone.
    pub(super) fn first_quiet(&self) -> Option<u32> {
        let first = self.living.first().filter(|_| self.quiet != 0);
        first.map(|app| app.process.pid())
    }

    /// All processes.
    pub(super) fn pids(&self) -> Vec<u32> {
        self.living.iter().map(|app| app.process.pid()).collect()
    }

    /// Whether this is an app that was never told to do anything.
    pub(super) fn is_quiet(&self, pid: u32) -> bool {
        let found = self.living.iter().find(|app| app.process.pid() == pid);
        found.is_some_and(|app| app.told.is_empty())
    }

    /// How long the apps that were never told to do anything have lived, together.
    pub(super) fn quiet_time(&self) -> Duration {
        let quiet = self.living.iter().filter(|app| app.told.is_empty());
        quiet.map(|app| app.started.elapsed()).sum()
    }

    /// The first of the quiet apps, whose number it returns, do a little again and again, and the user sees them; or they do nothing
    /// any more. They count as quiet ones all the same: nothing of it is worth a report.
    pub(super) fn set_steady(&mut self, is_steady: bool) -> Result<usize> {
        let commands = match is_steady {
            true => ["foreground", "tick"],
            false => ["background", "background"],
        };
        let count = self.quiet.div_ceil(2).min(self.living.len());
        for app in &mut self.living[..count] {
            for command in commands {
                app.process.ask(command)?;
            }
        }
        Ok(count)
    }

    /// The user sees this app from now on, and no other one.
    pub(super) fn bring_to_foreground(&mut self, dice: &mut Dice) -> Result<()> {
        let chosen = self.choose(dice);
        for (index, app) in self.living.iter_mut().enumerate() {
            let is_foreground = index == chosen;
            if app.is_foreground != is_foreground {
                app.ask(match is_foreground {
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
