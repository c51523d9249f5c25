// SPDX-License-Identifier: Apache-2.0
//! Writes a trace in any of the formats.

use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::path::Path;

use hindsight_causality::transactions::TransactionId;
use hindsight_decoder::Trace;

use crate::causes::Causes;
use crate::error::Error;
use crate::format::Format;
use crate::output::{folder_of, followed, Output, Target};
use crate::written::Written;
use crate::{chrome, container, firefox, folded, nanoscope, parquet, perfetto, pprof, speedscope};

/// Writes all threads of `trace` to `out`; Nanoscope's format has one thread only, the main thread, or else the first.
///
/// # Errors
/// If `out` cannot be written, or if the format is not a stream of bytes ([`Format::is_stream`]).
pub fn write(trace: &Trace, format: Format, out: &mut dyn Write) -> Result<Written, Error> {
    let mut out = Counting { out, bytes: 0 };
    let written = match format {
        Format::Perfetto => perfetto::write(trace, &mut out)?,
        Format::Chrome => chrome::write(trace, &mut out)?,
        Format::Firefox => firefox::write(trace, &mut out)?,
        Format::Speedscope => speedscope::write(trace, &mut out)?,
        Format::Folded => folded::write(trace, &mut out)?,
        Format::Pprof => pprof::write(trace, &mut out)?,
        Format::Parquet | Format::Hindsight => return Err(Error::NoStream(format)),
        Format::Nanoscope => {
            let thread = trace.main_thread().or(trace.threads.first());
            nanoscope::write(trace, thread.ok_or(Error::NoThreads)?, &mut out)?
        }
    };
    out.flush()?;
    Ok(Written {
        bytes: out.bytes,
        ..written
    })
}

/// Writes all threads of `trace` into a file, or a folder where the format is one. A file at `path`, or at the end of
/// its symbolic links, is replaced atomically when the new one is complete; on an error, nothing is left of the new one.
/// A device or a FIFO is written to and not replaced.
///
/// # Errors
/// If the file cannot be written; the error names it.
pub fn write_file(trace: &Trace, format: Format, path: &Path) -> Result<Written, Error> {
    let cannot_write = |source| Error::File {
        path: path.to_owned(),
        source,
    };
    let written = match format {
        Format::Parquet => followed(path)
            .and_then(|folder| parquet::write_folder(trace, &folder))
            .map_err(Error::Write),
        _ => Target::of(path)
            .map_err(Error::Write)
            .and_then(|target| write_target(trace, format, target)),
    };
    written.map_err(|e| match e {
        Error::Write(source) => cannot_write(source),
        other => other,
    })
}

/// Writes the traces of a session in Perfetto's format into a file, with the critical paths of these transactions as slices
/// below the threads that they go through, and flows from step to step.
///
/// # Errors
/// If the file cannot be written; the error names it.
pub fn write_paths(
    causes: &Causes<'_>,
    chosen: &[TransactionId],
    path: &Path,
) -> Result<(), Error> {
    let write = || -> io::Result<()> {
        let fill = |file: &mut dyn Write| {
            let mut out = BufWriter::with_capacity(1 << 20, file);
            perfetto::paths::write(causes, chosen, &mut out)?;
            out.flush()
        };
        match Target::of(path)? {
            Target::File(path) => {
                let mut output = Output::create_in(folder_of(&path))?;
                fill(&mut output.file)?;
                output.finish(&path)
            }
            Target::Stream(mut stream) => fill(&mut stream),
        }
    };
    write().map_err(|source| Error::File {
        path: path.to_owned(),
        source,
    })
}

fn write_target(trace: &Trace, format: Format, target: Target) -> Result<Written, Error> {
    match target {
        Target::File(path) => {
            let mut output = Output::create_in(folder_of(&path))?;
            let written = fill(trace, format, &mut output.file)?;
            output.finish(&path)?;
            Ok(written)
        }
        Target::Stream(mut stream) if format == Format::Hindsight => {
            // It is not written from its start to its end.
            let mut whole = tempfile::tempfile()?;
            let written = fill(trace, format, &mut whole)?;
            whole.rewind()?;
            io::copy(&mut whole, &mut stream)?;
            Ok(written)
        }
        Target::Stream(mut stream) => fill(trace, format, &mut stream),
    }
}

/// Writes an empty file.
fn fill(trace: &Trace, format: Format, file: &mut File) -> Result<Written, Error> {
    if format == Format::Hindsight {
        return Ok(container::write(trace, file)?);
    }
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let written = write(trace, format, &mut out)?;
    out.flush()?;
    Ok(written)
}

struct Counting<'a> {
    out: &'a mut dyn Write,
    bytes: u64,
}

impl Write for Counting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use hindsight_testkit::stall;
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::{symlink, FileTypeExt};

    const FORMATS: [Format; 3] = [Format::Perfetto, Format::Chrome, Format::Hindsight];

    fn trace() -> Trace {
        Trace::decode("stall".as_ref(), &stall().encode()).unwrap()
    }

    #[test]
    fn the_file_that_a_link_leads_to_is_replaced_and_the_link_stays() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("d")).unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("d/old"), "old").unwrap();
        symlink("old", at("d/second")).unwrap();
        symlink("d/second", at("first")).unwrap();
        symlink("d/new", at("dangling")).unwrap();
        let trace = trace();
        for format in FORMATS {
            write_file(&trace, format, &at("plain")).unwrap();
            for (link, target) in [("first", "d/old"), ("dangling", "d/new")] {
                write_file(&trace, format, &at(link)).unwrap();
                assert!(at(link).is_symlink() && !at(target).is_symlink());
                assert!(fs::read(at(target)).unwrap() == fs::read(at("plain")).unwrap());
            }
        }
        assert!(at("d/second").is_symlink());
        symlink("circle", at("circle")).unwrap();
        let error = write_file(&trace, Format::Chrome, &at("circle")).unwrap_err();
        assert!(error.to_string().contains("circle"), "{error}");
    }

    #[test]
    fn a_fifo_is_written_to_and_not_replaced() {
        use rustix::fs::{mknodat, FileType, Mode, CWD};
        let folder = tempfile::tempdir().unwrap();
        let (fifo, plain) = (folder.path().join("fifo"), folder.path().join("plain"));
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let trace = trace();
        for format in FORMATS {
            write_file(&trace, format, &plain).unwrap();
            // With a writer, opening for reading does not wait; and the reader ends when all writers have.
            let held = fs::OpenOptions::new()
                .read(true)
                .write(true)
                .open(&fifo)
                .unwrap();
            let mut end = File::open(&fifo).unwrap();
            let reader = std::thread::spawn(move || {
                let mut bytes = Vec::new();
                end.read_to_end(&mut bytes).unwrap();
                bytes
            });
            write_file(&trace, format, &fifo).unwrap();
            assert!(fs::metadata(&fifo).unwrap().file_type().is_fifo());
            drop(held);
            assert!(reader.join().unwrap() == fs::read(&plain).unwrap());
        }
    }
}
