// SPDX-License-Identifier: Apache-2.0
//! Arguments of the program.

use std::path::PathBuf;
use std::time::Duration;

use crate::conditions::Conditions;

/// The help text.
pub const HELP: &str = "\
hindsight-upload: sends what users agreed to from hindsightd to a collector

usage: hindsight-upload --service PATH --collector HOST:PORT --ca FILE [OPTION]...

  --service PATH         hindsightd's socket for uploads (its option --uploads)
  --collector HOST:PORT  where to; the certificate must be of this host
  --ca FILE              certificates (PEM) of which one must have signed the collector's; no others count
  --conditions FILE      uploads only while this file has idle=1, charging=1 and unmetered=1; without this option, only while hindsightd
                         allows it (its option --uploads-when allowed)
  --once                 ends when there is nothing more to send, or the conditions are not met: exit code 0; 1 after a failure
  --wait-s N             looks for work so often, and waits so long after a first failure (900)
  --deadline-s N         the most time for one request of at most 256 KiB (120)
  --help                 this text
";

/// What the program was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// hindsightd's socket.
    pub service: PathBuf,
    /// Host of the collector, for its certificate.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// File with certificates.
    pub ca: PathBuf,
    /// When to send.
    pub conditions: Conditions,
    /// Whether to end when there is nothing more to send.
    pub once: bool,
    /// Time between runs.
    pub wait: Duration,
    /// The most time for a request.
    pub deadline: Duration,
}

/// `None`: help is wanted.
///
/// # Errors
/// If an argument is missing or not understood: a message with the remedy.
pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
    let mut texts: [Option<String>; 4] = Default::default();
    let names = ["--service", "--collector", "--ca", "--conditions"];
    let (mut once, mut wait, mut deadline) = (false, 900, 120);
    let mut rest = arguments;
    while let Some(option) = rest.next() {
        match option.as_str() {
            "--help" | "-h" => return Ok(None),
            "--once" => {
                once = true;
                continue;
            }
            _ => {}
        }
        let place = names.iter().position(|name| *name == option);
        if place.is_none() && !["--wait-s", "--deadline-s"].contains(&option.as_str()) {
            return Err(format!("there is no option '{option}'; --help has all"));
        }
        let value = rest
            .next()
            .ok_or_else(|| format!("{option}: its value is missing"))?;
        let seconds = || {
            let number = value.parse().ok().filter(|n| (1..=86_400).contains(n));
            number.ok_or_else(|| format!("{option}: '{value}' is no number from 1 to 86400"))
        };
        match place {
            Some(place) => texts[place] = Some(value),
            None if option == "--wait-s" => wait = seconds()?,
            None => deadline = seconds()?,
        }
    }
    let mut texts = texts.into_iter().zip(names);
    let mut text = || match texts.next() {
        Some((Some(text), _)) => Ok(text),
        Some((None, name)) => Err(format!("{name} is missing; --help has an explanation")),
        None => Err(String::new()),
    };
    let (service, collector, ca) = (text()?, text()?, text()?);
    let conditions = text().ok();
    let wrong = || format!("--collector: '{collector}' is not HOST:PORT");
    let (host, port) = collector.rsplit_once(':').ok_or_else(wrong)?;
    let is_host = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
    if host.is_empty() || !host.chars().all(is_host) {
        return Err(wrong());
    }
    Ok(Some(Options {
        service: service.into(),
        host: host.to_owned(),
        port: port.parse().map_err(|_| wrong())?,
        ca: ca.into(),
        conditions: conditions.map_or(Conditions::of_the_service(), |path| {
            Conditions::new(path.as_ref())
        }),
        once,
        wait: Duration::from_secs(wait),
        deadline: Duration::from_secs(deadline),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_understood_or_refused() {
        let of = |text: &str| parse(text.split_whitespace().map(str::to_owned));
        let all = "--service /s --collector a.b:443 --ca /c --conditions /x";
        let options = of(&format!("{all} --once --deadline-s 5"))
            .unwrap()
            .unwrap();
        assert_eq!((options.host.as_str(), options.port), ("a.b", 443));
        assert!(options.once && options.deadline == Duration::from_secs(5));
        assert!(!options.conditions.are_of_the_service());
        let without = of("--service /s --collector a:1 --ca /c").unwrap().unwrap();
        assert!(without.conditions.are_of_the_service());
        assert_eq!(of("--help"), Ok(None));
        for (text, part) in [
            ("", "--service is missing"),
            ("--service", "value is missing"),
            ("--service /s --collector a:1", "--ca is missing"),
            ("--new", "no option"),
            (&all.replace("a.b:443", "a.b"), "HOST:PORT"),
            (&all.replace("a.b:443", "a/b:1"), "HOST:PORT"),
            (&format!("{all} --wait-s 0"), "1 to 86400"),
        ] {
            assert!(of(text).unwrap_err().contains(part), "{text}");
        }
    }
}
