// SPDX-License-Identifier: Apache-2.0
//! Text on standard output: paragraphs, tables and colours that fit the terminal.

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use clap::Args;
use unicode_width::UnicodeWidthStr;

use crate::output::OutputError;
use crate::words::{count, shorten, wrap};

/// Escape sequences before and after parts of a text that should stand out; empty for plain text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette {
    /// Before the most important words.
    pub(crate) strong: &'static str,
    /// Before words that are only context.
    pub(crate) dim: &'static str,
    /// Before changes for the worse.
    pub(crate) bad: &'static str,
    /// Before changes for the better.
    pub(crate) good: &'static str,
    /// After any of them.
    pub(crate) reset: &'static str,
}

impl Palette {
    /// Plain text.
    pub(crate) const PLAIN: Palette = Palette {
        strong: "",
        dim: "",
        bad: "",
        good: "",
        reset: "",
    };
    /// For a terminal.
    const ANSI: Palette = Palette {
        strong: "\x1b[1m",
        dim: "\x1b[2m",
        bad: "\x1b[31m",
        good: "\x1b[32m",
        reset: "\x1b[0m",
    };
}

/// How results are shown.
#[derive(Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Look {
    #[command(flatten)]
    pub(crate) color: colorchoice_clap::Color,
    /// Cut and wrap lines to this width; default: the terminal's width, and no limit for files and pipes
    #[arg(long, global = true, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(40..))]
    width: Option<u16>,
}

/// Colours, if `stream` is a terminal that wants them.
pub(crate) fn palette(stream: &impl anstream::stream::RawStream) -> Palette {
    match anstream::AutoStream::choice(stream) {
        anstream::ColorChoice::Never => Palette::PLAIN,
        _ => Palette::ANSI,
    }
}

/// Standard output, with the colours and the width that it takes.
pub(crate) struct Page {
    out: BufWriter<StdoutLock<'static>>,
    pub(crate) palette: Palette,
    pub(crate) width: Option<usize>,
}

impl Page {
    pub(crate) fn new(look: &Look) -> Self {
        let out = io::stdout().lock();
        let terminal = || {
            let (width, _) = terminal_size::terminal_size_of(&out)?;
            Some(width.0)
        };
        let width = look
            .width
            .or_else(|| out.is_terminal().then(terminal).flatten());
        Page {
            palette: palette(&out),
            width: width.map(|w| usize::from(w.max(40))),
            out: BufWriter::new(out),
        }
    }

    /// Writes a report with `write`, and all of it to standard output.
    pub(crate) fn show(
        mut self,
        write: impl FnOnce(&mut Page) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        write(&mut self)
            .and_then(|()| self.flush())
            .map_err(OutputError)?;
        Ok(())
    }

    /// A paragraph.
    pub(crate) fn plain(&mut self, text: &str) -> io::Result<()> {
        self.paragraph(text, "", "")
    }

    /// A paragraph of context.
    pub(crate) fn dim(&mut self, text: &str) -> io::Result<()> {
        self.paragraph(text, self.palette.dim, self.palette.reset)
    }

    /// A heading.
    pub(crate) fn strong(&mut self, text: &str) -> io::Result<()> {
        self.paragraph(text, self.palette.strong, self.palette.reset)
    }

    /// A paragraph that begins `indent` columns to the right.
    pub(crate) fn indented(&mut self, text: &str, indent: usize) -> io::Result<()> {
        let room = self.width.map(|w| w.saturating_sub(indent).max(30));
        for line in text.lines().flat_map(|l| wrap(l, room)) {
            writeln!(self.out, "{:indent$}{line}", "")?;
        }
        Ok(())
    }

    /// An item of a list: its further lines begin below its text.
    pub(crate) fn item(&mut self, text: &str) -> io::Result<()> {
        let room = self.width.map(|w| w.saturating_sub(4).max(30));
        for (i, line) in wrap(text, room).iter().enumerate() {
            let mark = if i == 0 { "-" } else { " " };
            writeln!(self.out, "  {mark} {line}")?;
        }
        Ok(())
    }

    /// A line about rows that are not shown, if there are any.
    pub(crate) fn more(&mut self, hidden: usize) -> io::Result<()> {
        if hidden == 0 {
            return Ok(());
        }
        self.dim(&format!("{} more (use --limit)", count(hidden as u64)))
    }

    fn paragraph(&mut self, text: &str, style: &str, reset: &str) -> io::Result<()> {
        for line in wrap(text, self.width) {
            writeln!(self.out, "{style}{line}{reset}")?;
        }
        Ok(())
    }

    /// Facts, one to a line, with their names in a column.
    pub(crate) fn facts(&mut self, facts: &[(&str, String)]) -> io::Result<()> {
        let names = facts
            .iter()
            .map(|(name, _)| name.width())
            .max()
            .unwrap_or(0);
        let room = self.width.map(|w| w.saturating_sub(names + 2).max(20));
        let Palette { dim, reset, .. } = self.palette;
        for (name, fact) in facts {
            let padding = " ".repeat(names - name.width());
            for (i, line) in wrap(fact, room).iter().enumerate() {
                match i {
                    0 => writeln!(self.out, "{dim}{name}{reset}{padding}  {line}")?,
                    _ => writeln!(self.out, "{:names$}  {line}", "")?,
                }
            }
        }
        Ok(())
    }

    /// Rows in aligned columns, two spaces apart. Columns of names or prose share the width that the others leave.
    pub(crate) fn table(&mut self, columns: &[Column], rows: &[Vec<Cell>]) -> io::Result<()> {
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            let cells = cells.map(|c| c.text.width());
            let title = columns[column].title.width();
            cells.chain([title]).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..columns.len()).map(width).collect();
        if let Some(page) = self.width {
            fit(&mut widths, columns, page);
        }
        let Palette { dim, reset, .. } = self.palette;
        if columns.iter().any(|c| !c.title.is_empty()) {
            let titles: Vec<Cell> = columns.iter().map(|c| c.title.into()).collect();
            let titles = line(&titles, columns, &widths, "");
            writeln!(self.out, "{dim}{titles}{reset}")?;
        }
        for row in rows {
            let mut row = row.clone();
            let mut below: Vec<Cell> = Vec::new();
            for ((cell, column), &width) in row.iter_mut().zip(columns).zip(&widths) {
                if cell.text.width() <= width {
                    continue;
                }
                if column.kind == Kind::Prose {
                    let mut lines = wrap(&cell.text, Some(width)).into_iter();
                    cell.text = lines.next().unwrap_or_default();
                    below = lines.map(Cell::from).collect();
                } else {
                    cell.text = shorten(&cell.text, width);
                }
            }
            writeln!(self.out, "{}", line(&row, columns, &widths, reset))?;
            // Only the last column holds prose.
            let before: usize = widths[..widths.len() - 1].iter().map(|w| w + 2).sum();
            for text in below {
                writeln!(self.out, "{:before$}{}", "", text.text)?;
            }
        }
        Ok(())
    }
}

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The contents of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Numbers: aligned to the right.
    Number,
    /// Short texts.
    Text,
    /// Names, which are cut where the page is too narrow.
    Name,
    /// Sentences, which are wrapped; only in the last column.
    Prose,
}

/// A column of a table.
pub(crate) struct Column {
    title: &'static str,
    kind: Kind,
}

/// A column with a title.
pub(crate) fn column(title: &'static str, kind: Kind) -> Column {
    Column { title, kind }
}

/// A cell of a table.
#[derive(Clone, Default)]
pub(crate) struct Cell {
    text: String,
    style: &'static str,
}

impl Cell {
    /// A cell in a style of the [`Palette`].
    pub(crate) fn styled(text: impl Into<String>, style: &'static str) -> Self {
        Cell {
            text: text.into(),
            style,
        }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::styled(text, "")
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::styled(text, "")
    }
}

/// Narrows the columns of names and prose until the table fits, the widest first.
fn fit(widths: &mut [usize], columns: &[Column], page: usize) {
    const LEAST: usize = 16;
    let elastic = |i: &usize| matches!(columns[*i].kind, Kind::Name | Kind::Prose);
    let whole: usize = widths.iter().map(|w| w + 2).sum();
    for _ in 0..whole.saturating_sub(page + 2) {
        let widest = (0..columns.len())
            .filter(elastic)
            .max_by_key(|&i| widths[i]);
        match widest.filter(|&i| widths[i] > LEAST) {
            Some(widest) => widths[widest] -= 1,
            None => return,
        }
    }
}

fn line(row: &[Cell], columns: &[Column], widths: &[usize], reset: &str) -> String {
    let mut out = String::new();
    let mut spaces = 0;
    for ((cell, column), &width) in row.iter().zip(columns).zip(widths) {
        let padding = width.saturating_sub(cell.text.width());
        let (before, after) = match column.kind {
            Kind::Number => (padding, 0),
            _ => (0, padding),
        };
        if !cell.text.is_empty() {
            out.push_str(&" ".repeat(spaces + before));
            spaces = 0;
            if cell.style.is_empty() {
                out.push_str(&cell.text);
            } else {
                out.push_str(&format!("{}{}{reset}", cell.style, cell.text));
            }
        } else {
            spaces += before;
        }
        // Only written before the next cell: no line ends with spaces.
        spaces += after + 2;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_names_share_the_width() {
        let columns = [
            column("n", Kind::Number),
            column("a", Kind::Name),
            column("b", Kind::Name),
        ];
        let fitted = |mut widths: [usize; 3], page| {
            fit(&mut widths, &columns, page);
            widths
        };
        assert_eq!(fitted([8, 20, 30], 100), [8, 20, 30]);
        assert_eq!(fitted([8, 20, 30], 60), [8, 20, 28]);
        let [n, a, b] = fitted([8, 40, 41], 80);
        assert!(
            n == 8 && n + a + b + 4 <= 80 && a.abs_diff(b) <= 1,
            "{a} {b}"
        );
        // Below a least width, a line that is too long is better than one that says nothing.
        assert_eq!(fitted([8, 40, 40], 20), [8, 16, 16]);
    }

    #[test]
    fn empty_cells_keep_their_columns_but_no_line_ends_with_spaces() {
        let columns = [
            column("", Kind::Number),
            column("", Kind::Number),
            column("", Kind::Text),
        ];
        let cells: Vec<Cell> = ["", "12", ""].map(Cell::from).into();
        assert_eq!(line(&cells, &columns, &[3, 4, 5], ""), "       12");
    }
}
