// SPDX-License-Identifier: Apache-2.0
//! Text for people: columns, numbers, sizes.

use std::io::{self, Write};

use hindsight_analysis::Palette;

/// Colours, if `stream` is a terminal that wants them.
pub(crate) fn palette(stream: &impl anstream::stream::RawStream) -> Palette {
    match anstream::AutoStream::choice(stream) {
        anstream::ColorChoice::Never => Palette::PLAIN,
        _ => Palette::ANSI,
    }
}

/// `12 345 678`
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
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

/// How a column is aligned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Writes rows in aligned columns, two spaces apart.
pub(crate) fn table(
    out: &mut dyn Write,
    palette: Palette,
    header: &[(&str, Align)],
    rows: &[Vec<String>],
) -> io::Result<()> {
    let width = |column: usize| {
        let cells = rows
            .iter()
            .filter_map(|row| row.get(column))
            .map(|c| c.chars().count());
        cells
            .chain([header[column].0.chars().count()])
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for ((cell, width), (_, align)) in cells.zip(&widths).zip(header) {
            let padding = " ".repeat(width - cell.chars().count());
            match align {
                Align::Left => line += &format!("{cell}{padding}  "),
                Align::Right => line += &format!("{padding}{cell}  "),
            }
        }
        line.trim_end().to_owned()
    };
    let titles = line(&mut header.iter().map(|(title, _)| *title));
    writeln!(out, "{}{titles}{}", palette.dim, palette.reset)?;
    for row in rows {
        writeln!(out, "{}", line(&mut row.iter().map(String::as_str)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped_and_sizes_have_units() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1 000");
        assert_eq!(count(12_345_678), "12 345 678");
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(33_554_432), "32 MiB");
        assert_eq!(bytes(1_669_464), "1.6 MiB");
    }
}
