// SPDX-License-Identifier: Apache-2.0
//! Text for people: columns that fit the terminal, sizes, colours.

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use clap::Args;
use hindsight_analysis::{shorten, wrap, Layout, Palette};
use unicode_width::UnicodeWidthStr;

pub(crate) use hindsight_analysis::count;

/// How results are shown.
#[derive(Args)]
pub(crate) struct Look {
    #[command(flatten)]
    pub(crate) color: colorchoice_clap::Color,
    /// Cut and wrap lines to so many columns; by default those of the terminal, and elsewhere nothing is cut
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

/// Standard output, and what is known of it.
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

    /// For texts of the analysis.
    pub(crate) fn layout(&self) -> Layout {
        Layout {
            palette: self.palette,
            width: self.width,
            ..Layout::PLAIN
        }
    }

    /// A paragraph.
    pub(crate) fn plain(&mut self, text: &str) -> io::Result<()> {
        self.paragraph(text, "", "")
    }

    /// A paragraph that is only context.
    pub(crate) fn dim(&mut self, text: &str) -> io::Result<()> {
        self.paragraph(text, self.palette.dim, self.palette.reset)
    }

    /// A heading.
    pub(crate) fn strong(&mut self, text: &str) -> io::Result<()> {
        self.paragraph(text, self.palette.strong, self.palette.reset)
    }

    /// A paragraph that begins so many columns to the right.
    pub(crate) fn indented(&mut self, text: &str, indent: usize) -> io::Result<()> {
        let room = self.width.map(|w| w.saturating_sub(indent).max(30));
        for line in text.lines().flat_map(|l| wrap(l, room)) {
            writeln!(self.out, "{:indent$}{line}", "")?;
        }
        Ok(())
    }

    fn paragraph(&mut self, text: &str, style: &str, reset: &str) -> io::Result<()> {
        for line in wrap(text, self.width) {
            writeln!(self.out, "{style}{line}{reset}")?;
        }
        Ok(())
    }

    /// Facts, one a line, their names in a column.
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

    /// Rows in aligned columns, two spaces apart. Columns of names or prose share the room that the others
    /// leave.
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

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Numbers: aligned to the right.
    Number,
    /// Short texts.
    Text,
    /// Names, which are cut where room is short.
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
    /// With something before it that makes it stand out.
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
        // Nothing at the end of a line.
        spaces += after + 2;
    }
    out
}

/// `32 MiB`
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = usize::from(unit > 0 && value < 100.0 && value.fract() > 0.0);
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// `54.7 %`; `<0.1 %` for what is little, but not nothing
pub(crate) fn percent(part: u64, whole: u64) -> String {
    let percent = part as f64 * 100.0 / whole.max(1) as f64;
    if part > 0 && percent < 0.05 {
        "<0.1 %".to_owned()
    } else {
        format!("{percent:.1} %")
    }
}

/// `1 call`, `2 calls`
pub(crate) fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(33_554_432), "32 MiB");
        assert_eq!(bytes(1_669_464), "1.6 MiB");
    }

    #[test]
    fn elastic_columns_share_what_is_missing() {
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
        // Below a least width, lines are too long rather than meaningless.
        assert_eq!(fitted([8, 40, 40], 20), [8, 16, 16]);
    }

    #[test]
    fn empty_cells_leave_their_room_but_nothing_at_the_end() {
        let columns = [
            column("", Kind::Number),
            column("", Kind::Number),
            column("", Kind::Text),
        ];
        let cells: Vec<Cell> = ["", "12", ""].map(Cell::from).into();
        assert_eq!(line(&cells, &columns, &[3, 4, 5], ""), "       12");
    }
}
