// SPDX-License-Identifier: Apache-2.0
//! The stalls of a thread, in words.

use std::io::{self, Write as _};

use hindsight_analysis::{Activity, Chain, EventStall, Stalls};
use hindsight_causality::story::{standstill, Report};

use super::answer::{of_events, Answers, Choice};
use super::event_stall::{account, of_wait};
use super::text::{named, Layout, Text};
use crate::diagnose::write_blocks;
use crate::page::{Page, Palette};
use crate::words::duration;

/// Writes the stalls, or a sentence that there is none, with what the graph of causes and effects says of them.
pub(super) fn explain(
    page: &mut Page,
    stalls: &Stalls,
    answers: &Answers,
    layout: Layout,
) -> io::Result<()> {
    let mut text = Text {
        page,
        layout,
        unit: match (stalls.messages, stalls.events_only) {
            (true, _) => "message",
            (false, true) => "task",
            (false, false) => "call",
        },
    };
    text.stalls(stalls, answers)
}

impl Text<'_> {
    fn stalls(&mut self, stalls: &Stalls, answers: &Answers) -> io::Result<()> {
        if stalls.stall != Some(true) {
            self.no_stall(stalls)?;
            if let Some(instead) = &answers.instead {
                writeln!(self.page)?;
                write_blocks(self.page, &standstill(instead))?;
            }
            return Ok(());
        }
        for (i, stall) in stalls.event_stalls.iter().enumerate() {
            self.separate(i)?;
            self.event_stall(stalls, stall, answers.of_stall(i))?;
        }
        for (i, chain) in stalls.chains.iter().enumerate() {
            self.separate(i)?;
            let what = self.what_took(chain);
            self.say(self.page.palette.strong, &what)?;
            self.chain(chain, answers.of_stall(i))?;
        }
        Ok(())
    }

    /// A line before all stalls but the first.
    fn separate(&mut self, i: usize) -> io::Result<()> {
        if i > 0 {
            let line = "─".repeat(72.min(self.page.width.unwrap_or(72)));
            let Palette { dim, reset, .. } = self.page.palette;
            writeln!(self.page, "\n{dim}{line}{reset}")?;
        }
        Ok(())
    }

    fn event_stall(
        &mut self,
        stalls: &Stalls,
        stall: &EventStall,
        answer: Option<&Report>,
    ) -> io::Result<()> {
        let strong = self.page.palette.strong;
        let end = match self.layout.window {
            true => "the end of the selected time",
            false => "the end of its recording",
        };
        let account = account(
            stall,
            &named(&stalls.thread, stalls.tid),
            end,
            self.layout.beginning_is_cut,
        );
        self.say(strong, &account.headline)?;
        for paragraph in account.paragraphs {
            writeln!(self.page)?;
            self.say("", &paragraph)?;
        }
        let told = stall.wait.is_some().then_some(1 + stall.followed.len());
        let choice = answer.map(|report| of_events(stall, report));
        // Where its own events lead to nothing, the graph says what would have to be recorded.
        let choice = choice.map_or(Choice::Own, |choice| match account.conclusion {
            Some(_) => choice,
            None => Choice::Graph,
        });
        self.conclude(account.conclusion, choice, answer, told.unwrap_or(0))
    }

    fn no_stall(&mut self, stalls: &Stalls) -> io::Result<()> {
        let strong = self.page.palette.strong;
        let (thread, unit) = (named(&stalls.thread, stalls.tid), self.unit);
        let limit = duration(stalls.stall_ns);
        if let Some(longest) = stalls.chains.first().filter(|_| !stalls.named) {
            self.say(
                strong,
                "The methods of this trace have no names, so it cannot be told whether there was a stall: messages, and \
                 waiting for work, are recognized by names.",
            )?;
            let what = self.what_took(longest);
            self.say("", &what)?;
            return self.chain(longest, None);
        }
        if stalls.silent {
            return self.silent(stalls);
        }
        let missing = stalls.unrecorded_ns >= stalls.stall_ns;
        let no_stall = match (stalls.damaged, self.layout.window) {
            (true, _) => format!(
                "No stall in the part that could be read ({})",
                duration(stalls.span_ns)
            ),
            (false, _) if missing => format!(
                "No stall in the part that is recorded ({})",
                duration(stalls.span_ns.saturating_sub(stalls.unrecorded_ns))
            ),
            (false, true) => "No stall in the selected time".to_owned(),
            (false, false) => "No stall".to_owned(),
        };
        if let Some(busy) = stalls.chains.first() {
            let at_least = match busy.began_before || busy.still_running {
                true => "at least ",
                false => "",
            };
            let held = duration(busy.held_ns);
            let what = match busy.activity {
                Activity::Unknown => format!(
                    "Whether there was a stall cannot be told: {thread} made one call of {at_least}{held}, and may have \
                     been busy itself:"
                ),
                _ => format!(
                    "{no_stall}: {thread} was busy itself for {at_least}{held}, in one call:"
                ),
            };
            self.say(strong, &what)?;
            self.chain(busy, None)?;
            return self.rest(stalls);
        }
        let Some(longest) = stalls.longest_ns.map(duration) else {
            let what = match (stalls.waited_for_work, stalls.events_only) {
                (true, _) => format!("{no_stall}: {thread} waited for work most of the time."),
                (false, false) => format!("{no_stall}: {thread} recorded no call."),
                (false, true) if stalls.nothing_recorded => {
                    let when = match self.layout.window {
                        true => "in the selected time",
                        false => "while it was recorded",
                    };
                    format!(
                        "Whether there was a stall cannot be told: {thread} recorded neither a call nor a message, task or wait {when}."
                    )
                }
                (false, true) => {
                    format!("{no_stall}: {thread} recorded neither a message nor a task.")
                }
            };
            self.say(strong, &what)?;
            return self.rest(stalls);
        };
        let at_least = match stalls.longest_is_cut {
            true => "at least ",
            false => "",
        };
        let what = format!("{no_stall}: the longest {unit} on {thread} took {at_least}{longest}.");
        self.say(strong, &what)?;
        if let Some(wait) = &stalls.outside {
            let waited = of_wait(wait);
            let waited = waited.strip_prefix("It ").unwrap_or(&waited);
            self.say("", &format!("But outside of its {unit}s it {waited}"))?;
        }
        self.rest(stalls)?;
        let dim = self.page.palette.dim;
        self.say(
            dim,
            &format!("A {unit} of {limit} or more is a stall; --stall sets another limit."),
        )
    }

    /// Says that a stall may be in a part of the ring that could not be read, or in a time of which nothing is left.
    fn rest(&mut self, stalls: &Stalls) -> io::Result<()> {
        if stalls.unrecorded_ns >= stalls.stall_ns {
            let missing = duration(stalls.unrecorded_ns);
            self.say(
                "",
                &format!(
                    "What this thread did in another {missing} is not known: its ring of that time was given to another thread, \
                     taken back or overwritten, or it stood still after its ring was exchanged. Whether there was a stall then \
                     cannot be told."
                ),
            )?;
        }
        if !stalls.damaged {
            return Ok(());
        }
        self.say(
            "",
            "The ring of this thread is damaged: whether there was a stall in the rest of it cannot be told.",
        )
    }

    /// Says that a thread stood still all the time, and that it is not known in what.
    fn silent(&mut self, stalls: &Stalls) -> io::Result<()> {
        let thread = named(&stalls.thread, stalls.tid);
        // Of a process that has ended, its end may not be known.
        let lasted = match stalls.span_ns {
            0 => String::new(),
            ns => format!(" for {},", duration(ns)),
        };
        self.say(
            self.page.palette.strong,
            &format!(
                "Whether there was a stall cannot be told: {thread} recorded nothing{lasted} since its ring was exchanged, as \
                 for an earlier report. It may have waited for work, or been stuck."
            ),
        )?;
        self.say(
            "",
            "What it had begun before is in the report for which its ring was taken then.",
        )
    }

    /// The first sentence: how long the message or call took, where and when.
    fn what_took(&self, chain: &Chain) -> String {
        let held = duration(chain.held_ns);
        let (thread, unit) = (named(&chain.thread, chain.tid), self.unit);
        let at_least = if chain.began_before { "at least " } else { "" };
        let end = match self.layout.window {
            true => "the end of the selected time",
            false if self.layout.end_is_missing => "the readable part of its ring ended",
            false => "the trace was taken",
        };
        if chain.still_running {
            let when = match self.layout.window {
                true => format!("at {end}"),
                false => format!("when {end}"),
            };
            return format!("One {unit} had run for {at_least}{held} on {thread} {when}:");
        }
        let until = match chain.ended_before_ns {
            0 => format!("until {end}"),
            ns => format!("until {} before {end}", duration(ns)),
        };
        format!("One {unit} took {at_least}{held} on {thread}, {until}:")
    }
}
