// SPDX-License-Identifier: Apache-2.0
//! The end of an explanation: who held the thread up.

use std::io::{self, Write as _};

use hindsight_causality::story::{verdict, waits, Report};

use super::answer::Choice;
use super::text::Text;
use crate::diagnose::write_blocks;

impl Text<'_> {
    /// Writes `own`, what a stall's own events or calls lead to, or the graph's answer, or both. The graph's chain of waits is
    /// shown if it is longer than the part that was `told` before.
    pub(super) fn conclude(
        &mut self,
        own: Option<String>,
        choice: Choice,
        answer: Option<&Report>,
        told: usize,
    ) -> io::Result<()> {
        let strong = self.page.palette.strong;
        if let Some(own) = own.filter(|_| choice != Choice::Graph) {
            writeln!(self.page)?;
            self.say(strong, &own)?;
        }
        let Some(report) = answer.filter(|_| choice != Choice::Own) else {
            return Ok(());
        };
        writeln!(self.page)?;
        if report.chain.len() > told {
            write_blocks(self.page, &waits(report))?;
            writeln!(self.page)?;
        }
        write_blocks(self.page, &verdict(report))
    }
}
