// SPDX-License-Identifier: Apache-2.0
//! The published layout: a file with one thread's ring as it is in memory, and three files that describe it.
//!
//! The Hubble paper names the contents of its files, but no byte layout. Ours, for a base name `main`:
//!
//! | file | holds |
//! |---|---|
//! | `main.ring` | the ring's memory from its start |
//! | `main.position` | the ring's position: `key=value` lines `tid`, `name`, `mode`, `log2_bytes`, `laps`, `offset`, `started`, `stopped` |
//! | `main.clocks` | `key=value` lines `ticks_per_second`, `source`, `counter`, `monotonic_ns`, `boottime_ns`, `realtime_ns`, `pid`, `process` |
//! | `main.symbols` | a line a method: address in hexadecimal, class, name, signature, source file, with tabs between them |
//!
//! Anchors, strings, stacks and further threads have no place in it and are lost; `.hindsight` keeps them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use hindsight_trace_format::container::{
    ClockSample, Clocks, Losses, ProcessFacts, Reader, Ring, RingHeader, RingMode, Strings, Symbol,
    SymbolTable, Symbols,
};
use hindsight_trace_format::ring::{Geometry, Position};
use hindsight_trace_format::slot::SLOT_BYTES;

use crate::clock::Clock;
use crate::error::Error;
use crate::key::ThreadKey;
use crate::methods::Merger;
use crate::model::Trace;
use crate::scan::unseen_frames_shown;
use crate::stacks::Stacks;
use crate::{file, ring};

/// Extensions of the four files.
const EXTENSIONS: [&str; 4] = ["ring", "position", "clocks", "symbols"];

/// The bytes of the four files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files<'a> {
    /// The ring's memory.
    pub ring: &'a [u8],
    /// The ring's position.
    pub position: &'a [u8],
    /// The counter and the clocks.
    pub clocks: &'a [u8],
    /// The methods.
    pub symbols: &'a [u8],
}

/// Whether this is the name of one of the four files.
pub fn is_hubble(path: &Path) -> bool {
    let extension = path.extension().and_then(|e| e.to_str());
    extension.is_some_and(|e| EXTENSIONS.contains(&e))
}

fn with(base: &Path, extension: &str) -> PathBuf {
    if is_hubble(base) {
        return base.with_extension(extension);
    }
    let mut name = base.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

/// Reads the four files; `path` is any of them, or their name without its end.
pub fn read(path: &Path) -> Result<Trace, Error> {
    let read = |extension| file::read(&with(path, extension));
    let (ring, position) = (read("ring")?, read("position")?);
    let (clocks, symbols) = (read("clocks")?, read("symbols")?);
    parse(
        path,
        Files {
            ring: &ring,
            position: &position,
            clocks: &clocks,
            symbols: &symbols,
        },
    )
}

/// Decodes the bytes of the four files; errors name them after `path`.
pub fn parse(path: &Path, files: Files<'_>) -> Result<Trace, Error> {
    let position_path = with(path, "position");
    let facts = Facts::parse(&position_path, files.position)?;
    let log2_bytes = facts.number("log2_bytes")?;
    let geometry = u32::try_from(log2_bytes).ok().and_then(Geometry::new);
    let geometry =
        geometry.ok_or_else(|| facts.fault("log2_bytes", "a ring has 2^12 to 2^30 bytes"))?;
    let header = RingHeader {
        tid: facts.number("tid")? as u32,
        name: facts.text("name").to_owned(),
        geometry,
        position: Position {
            laps: facts.number("laps")?,
            offset: facts.number("offset")?,
        },
        started_counter: facts.number("started")?,
        stopped_counter: facts.number("stopped")?,
        mode: mode(&facts)?,
        ..RingHeader::default()
    };
    let offset = header.position.offset;
    if offset > geometry.bytes() as u64 || offset % SLOT_BYTES as u64 != 0 {
        return Err(facts.fault("offset", "it is not the offset of a slot in the ring"));
    }
    let used = header.stored_bytes();
    let raw = files.ring.get(..used).ok_or_else(|| Error::Malformed {
        path: with(path, "ring"),
        offset: files.ring.len() as u64,
        what: format!(
            "the file ends here, but {} says that {used} bytes are in use; copy it again",
            position_path.display()
        ),
    })?;

    let clocks_path = with(path, "clocks");
    let facts = Facts::parse(&clocks_path, files.clocks)?;
    let clocks = Clocks {
        ticks_per_second: facts.number("ticks_per_second")?,
        source: facts.text("source").to_owned(),
        read_traps: false,
        samples: vec![ClockSample {
            counter: facts.number("counter")?,
            monotonic_ns: facts.number("monotonic_ns")?,
            boottime_ns: facts.number("boottime_ns")?,
            realtime_ns: facts.number("realtime_ns")?,
        }],
    };
    let process = ProcessFacts {
        pid: facts.number("pid")? as u32,
        name: facts.text("process").to_owned(),
        ..ProcessFacts::default()
    };
    let clock = Clock::new(&clocks).map_err(|what| Error::Clocks {
        path: clocks_path,
        what,
    })?;

    let symbols = symbols(&with(path, "symbols"), files.symbols)?.encode();
    let symbols = SymbolTable::decode(&symbols).map_err(|e| Error::Malformed {
        path: with(path, "symbols"),
        offset: 0,
        what: e.to_string(),
    })?;
    let ring = Ring {
        header,
        raw: Cow::Borrowed(raw),
    };
    let decoded = ring::decode(
        ThreadKey::default(),
        &ring.header,
        ring.slots(),
        &ring::Notes::default(),
        &clock,
        Some(&symbols),
        unseen_frames_shown(1),
    );
    let mut merger = Merger::default();
    let ids = merger.merge(&decoded.methods, Some(&symbols));
    Ok(Trace {
        strings: Strings::default(),
        stacks: Stacks::default(),
        process,
        clock,
        threads: vec![decoded.finish(&ids).thread],
        methods: merger.finish(),
        losses: Losses::default(),
        damaged: Vec::new(),
        file_bytes: (files.ring.len()
            + files.position.len()
            + files.clocks.len()
            + files.symbols.len()) as u64,
    })
}

/// What the thread recorded; files of older versions don't say, and have calls.
fn mode(facts: &Facts<'_>) -> Result<RingMode, Error> {
    match facts.text("mode") {
        "" => Ok(RingMode::default()),
        name => {
            let mode = RingMode::from_name(name);
            mode.ok_or_else(|| facts.fault("mode", "a ring has calls or events"))
        }
    }
}

/// Writes a thread of a `.hindsight` file (the first, if `tid` is `None`) as the four files `base.ring`, …. Returns their size
/// together, bytes.
///
/// Each file is written atomically; the ring comes last.
pub fn write(hindsight: &Path, tid: Option<u32>, base: &Path) -> Result<u64, Error> {
    let bytes = file::read(hindsight)?;
    let format = |source| Error::Format {
        path: hindsight.to_owned(),
        source,
    };
    let reader = Reader::new(&bytes).map_err(format)?;
    let mut found = None;
    for index in reader.ring_indices() {
        let ring = reader.ring(index).map_err(format)?;
        found = ring.filter(|ring| tid.is_none_or(|tid| ring.header.tid == tid));
        if found.is_some() {
            break;
        }
    }
    let ring = found.ok_or_else(|| Error::NoThread {
        path: hindsight.to_owned(),
        tid,
    })?;
    let clocks = reader.clocks().map_err(format)?;
    let process = reader.process().map_err(format)?;
    let table = reader.symbol_table().map_err(format)?;

    let header = &ring.header;
    let position = format!(
        "tid={}\nname={}\nmode={}\nlog2_bytes={}\nlaps={}\noffset={}\nstarted={}\nstopped={}\n",
        header.tid,
        one_line(&header.name),
        header.mode.name(),
        header.geometry.log2_bytes(),
        header.position.laps,
        header.position.offset,
        header.started_counter,
        header.stopped_counter,
    );
    let sample = clocks.samples.last().copied().unwrap_or_default();
    let clocks = format!(
        "ticks_per_second={}\nsource={}\ncounter={}\nmonotonic_ns={}\nboottime_ns={}\nrealtime_ns={}\npid={}\nprocess={}\n",
        clocks.ticks_per_second,
        one_line(&clocks.source),
        sample.counter,
        sample.monotonic_ns,
        sample.boottime_ns,
        sample.realtime_ns,
        process.pid,
        one_line(&process.name),
    );
    let mut symbols = String::new();
    // An address with several names keeps the newest.
    let mut entries = table.iter().flat_map(|table| table.iter()).peekable();
    while let Some(symbol) = entries.next() {
        if entries
            .peek()
            .is_some_and(|next| next.address == symbol.address)
        {
            continue;
        }
        let names = [
            symbol.class,
            symbol.name,
            symbol.signature,
            symbol.source_file,
        ];
        let names = names.map(one_line).join("\t");
        symbols += &format!("{:#x}\t{names}\n", symbol.address);
    }
    let mut written = 0;
    for (extension, bytes) in [
        ("position", position.as_bytes()),
        ("clocks", clocks.as_bytes()),
        ("symbols", symbols.as_bytes()),
        ("ring", &ring.raw),
    ] {
        replace(&with(base, extension), bytes)?;
        written += bytes.len() as u64;
    }
    Ok(written)
}

/// Tabs and ends of lines separate fields.
fn one_line(text: &str) -> String {
    text.replace(['\t', '\n', '\r'], " ")
}

/// Writes a file under another name first, so that no half-written one has its name.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let cannot_write = |source| Error::Write {
        path: path.to_owned(),
        source,
    };
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let unfinished = path.with_file_name(name);
    let written = std::fs::File::create(&unfinished).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&unfinished, path)
    });
    written.map_err(|e| {
        let _ = std::fs::remove_file(&unfinished);
        cannot_write(e)
    })
}

fn symbols(path: &Path, bytes: &[u8]) -> Result<Symbols, Error> {
    let mut symbols = Symbols::default();
    for (number, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        if line.is_empty() {
            continue;
        }
        let line = String::from_utf8_lossy(line);
        let mut fields = line.split('\t');
        let mut field = || fields.next().unwrap_or_default();
        let address = field();
        let digits = address.trim_start_matches("0x");
        let address = u64::from_str_radix(digits, 16).map_err(|_| Error::Line {
            path: path.to_owned(),
            line: number as u64 + 1,
            what: format!("{address:?} is no hexadecimal address of a method"),
        })?;
        symbols.symbols.push(Symbol {
            address,
            class: field().to_owned(),
            name: field().to_owned(),
            signature: field().to_owned(),
            source_file: field().to_owned(),
            ..Symbol::default()
        });
    }
    Ok(symbols)
}

/// The lines `key=value` of a file.
struct Facts<'a> {
    path: &'a Path,
    /// With the number of the line.
    values: HashMap<&'a str, (u64, &'a str)>,
}

impl<'a> Facts<'a> {
    fn parse(path: &'a Path, bytes: &'a [u8]) -> Result<Self, Error> {
        let fault = |line: usize, what: &str| Error::Line {
            path: path.to_owned(),
            line: line as u64 + 1,
            what: what.to_owned(),
        };
        let text = std::str::from_utf8(bytes).map_err(|_| fault(0, "the file is not UTF-8"))?;
        let mut values = HashMap::new();
        for (number, line) in text.lines().enumerate().filter(|(_, l)| !l.is_empty()) {
            let (key, value) = line
                .split_once('=')
                .ok_or_else(|| fault(number, "there is no '=' in the line"))?;
            values.insert(key, (number as u64 + 1, value));
        }
        Ok(Facts { path, values })
    }

    fn text(&self, key: &str) -> &'a str {
        self.values.get(key).map_or("", |(_, value)| value)
    }

    fn number(&self, key: &str) -> Result<u64, Error> {
        let parsed = self.text(key).parse();
        parsed.map_err(|_| self.fault(key, "it is missing, or no number"))
    }

    fn fault(&self, key: &str, what: &str) -> Error {
        let (line, value) = self.values.get(key).copied().unwrap_or((1, ""));
        Error::Line {
            path: self.path.to_owned(),
            line,
            what: format!("{key}={value}: {what}"),
        }
    }
}
