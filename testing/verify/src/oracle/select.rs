// SPDX-License-Identifier: Apache-2.0
//! Selection of the programs.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{ensure, Context as _, Result};

use super::options::Options;
use super::programs::Program;

/// Whether a program of this name is selected.
pub(super) type Wanted<'a> = dyn Fn(&str) -> bool + 'a;

/// The sources of programs. A source is used only if the options may name one of its programs, as each takes time
/// or has to be built first.
pub(super) struct Sources<'a> {
    /// The programs in `lab/oracle`.
    pub(super) own: &'a dyn Fn() -> Result<Vec<Program>>,
    /// The programs of Debian's packages whose names fit.
    pub(super) debian: &'a dyn Fn(&Wanted<'_>) -> Result<Vec<Program>>,
    /// ART's run-tests, and the names of the ones that cannot be run here.
    pub(super) run_tests: &'a dyn Fn() -> Result<(Vec<Program>, BTreeSet<String>)>,
}

/// The programs that the options select, and the names of selected ones that cannot be run here.
pub(super) fn select(
    options: &Options,
    sources: &Sources<'_>,
) -> Result<(Vec<Program>, Vec<String>)> {
    let (mut programs, mut others) = (Vec::new(), Vec::new());
    let named = |name: &str| options.names.is_empty() || options.names.iter().any(|n| n == name);
    // Whether a selected program is in none of the sources so far.
    let incomplete = |programs: &[Program]| {
        options.names.is_empty()
            || options
                .names
                .iter()
                .any(|name| programs.iter().all(|program| program.name != *name))
    };
    let ours = options.set.is_none();
    if ours && !options.debian {
        programs.extend((sources.own)()?);
    }
    if ours && !options.own && incomplete(&programs) {
        programs.extend((sources.debian)(&named)?);
    }
    if !options.own && !options.debian && incomplete(&programs) {
        let (mut tests, scripted) = (sources.run_tests)()?;
        let mut missing: Vec<String> = scripted.into_iter().collect();
        if let Some(set) = &options.set {
            let text = fs::read_to_string(set).with_context(|| format!("{}", set.display()))?;
            missing = keep_listed(&text, &mut tests);
        }
        others.extend(missing);
        programs.extend(tests);
    }
    programs.retain(|program| named(&program.name));
    others.retain(|name| named(name));
    ensure!(
        !programs.is_empty() && programs.len() + others.len() >= options.names.len(),
        "some of {:?} are no programs of the oracle (a run-test has to be built first: see testing/verify/README.md)",
        options.names
    );
    Ok((programs, others))
}

/// Keeps the programs that a list names, one a line. Returns listed names without a program.
fn keep_listed(list: &str, programs: &mut Vec<Program>) -> Vec<String> {
    let listed = list.lines().filter_map(|line| line.split('#').next());
    let mut listed: Vec<&str> = listed.map(str::trim).filter(|n| !n.is_empty()).collect();
    programs.retain(|program| listed.contains(&program.name.as_str()));
    listed.retain(|name| programs.iter().all(|program| program.name != *name));
    listed.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use anyhow::bail;
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        options: Options,
    }

    fn program(name: &str) -> Program {
        Program {
            name: name.to_owned(),
            jar: Default::default(),
            class: "Main".to_owned(),
            arguments: Vec::new(),
            libraries: String::new(),
            prints: None,
            not_comparable: None,
            comparable: false,
        }
    }

    fn selected(line: &str, run_tests_are_built: bool) -> Result<Vec<String>> {
        let words = std::iter::once("oracle").chain(line.split_whitespace());
        let options = Arguments::parse_from(words).options;
        let sources = Sources {
            own: &|| Ok(vec![program("Calls")]),
            debian: &|wanted| {
                let all = ["GsonTree", "RhinoScript"];
                Ok(all
                    .into_iter()
                    .filter(|name| wanted(name))
                    .map(program)
                    .collect())
            },
            run_tests: &|| {
                if !run_tests_are_built {
                    bail!("the run-tests are not built");
                }
                Ok((vec![program("001-a")], BTreeSet::from(["002-b".to_owned()])))
            },
        };
        let (programs, _) = select(&options, &sources)?;
        Ok(programs.into_iter().map(|program| program.name).collect())
    }

    #[test]
    fn a_program_is_run_without_the_sources_of_the_others() {
        assert_eq!(selected("RhinoScript", false).unwrap(), ["RhinoScript"]);
        assert_eq!(
            selected("Calls GsonTree", false).unwrap(),
            ["Calls", "GsonTree"]
        );
        assert_eq!(selected("--own", false).unwrap(), ["Calls"]);
        assert_eq!(
            selected("--debian", false).unwrap(),
            ["GsonTree", "RhinoScript"]
        );
    }

    #[test]
    fn run_tests_have_to_be_built() {
        assert!(selected("", false).is_err());
        assert!(selected("Calls 001-a", false).is_err());
        assert_eq!(selected("Calls 001-a", true).unwrap(), ["Calls", "001-a"]);
        assert_eq!(
            selected("", true).unwrap(),
            ["Calls", "GsonTree", "RhinoScript", "001-a"]
        );
        assert!(selected("003-c", true).is_err());
    }

    #[test]
    fn names_of_a_set_without_a_program_are_reported() {
        let mut programs = vec![program("001-a"), program("002-b")];
        let missing = keep_listed("# all\n\n002-b # why\n003-c\n", &mut programs);
        assert_eq!(missing, ["003-c"]);
        assert_eq!(programs.len(), 1);
        assert_eq!(programs[0].name, "002-b");
    }
}
