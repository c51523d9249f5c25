// SPDX-License-Identifier: Apache-2.0
//! Groups of transactions: how long they took, which took too long, why they differ.

use std::io::{self, Write as _};

use hindsight_causality::transactions::{
    factors, groups, outliers, patterns, sequences, variance, Factor, Group, GroupBy, Measured,
    Outlier, Paths, Patterns, Spread, Transaction, Transactions, Variance, LEAST_FOR_MEAN,
    LEAST_FOR_MEDIAN, LEAST_FOR_VARIANCE, SIGNIFICANT,
};

use super::arguments::Arguments;
use crate::page::{column, Kind, Page};
use crate::session::Opened;
use crate::words::{count, counted, duration, percent};

/// A group with all that is known of it.
pub(super) struct Grouped {
    pub(super) group: Group,
    pub(super) name: String,
    pub(super) spread: Spread,
    pub(super) variance: Option<Variance>,
    pub(super) outliers: Vec<Outlier>,
    pub(super) patterns: Patterns,
}

/// All groups, and what explains the differences inside them.
pub(super) struct All {
    pub(super) groups: Vec<Grouped>,
    pub(super) factors: Vec<Factor>,
    /// Indices of two groups, and how often a transaction of the second one followed one of the first.
    pub(super) sequences: Vec<((usize, usize), usize)>,
    pub(super) numbers: Numbers,
}

/// Numbers about all transactions of the user, as AppInsight reports them.
#[derive(Default)]
pub(super) struct Numbers {
    /// Mean part of the time that the two longest stages of a critical path take.
    pub(super) two_longest: Option<f64>,
    /// Median numbers of edges of transactions, and of their critical paths.
    pub(super) edges: (usize, usize),
    /// Groups of two or more, those with several critical paths, and those with one whose longest stage varies.
    pub(super) groups: (usize, usize, usize),
}

impl All {
    pub(super) fn of(
        opened: &Opened,
        found: &Transactions,
        paths: &Paths<'_>,
        measured: &[Measured],
        by: GroupBy,
    ) -> Self {
        let session = &opened.session;
        let of_user = |g: &Group| g.kind.is_of_user();
        let mut list = groups(session, &opened.graph, found, by);
        // Without transactions of the user, the others are all there is.
        if list.iter().any(of_user) {
            list.retain(of_user);
        }
        let members: Vec<Vec<&Measured>> = list.iter().map(|g| of_group(measured, g)).collect();
        let with_facts: Vec<Vec<(&Transaction, &Measured)>> = members
            .iter()
            .map(|of| {
                of.iter()
                    .filter_map(|&m| Some((found.get(m.id)?, m)))
                    .collect()
            })
            .collect();
        let factors = factors(session, &with_facts);
        let sequences = sequences(session, found, &list);
        let groups: Vec<Grouped> = list
            .into_iter()
            .zip(&members)
            .map(|(group, members)| {
                let lengths: Vec<f64> = members.iter().map(|m| m.path_ns as f64).collect();
                Grouped {
                    name: name(opened, &group),
                    spread: Spread::of(&lengths),
                    variance: variance(members),
                    outliers: outliers(members),
                    patterns: patterns(session, found, paths, &group, members),
                    group,
                }
            })
            .collect();
        All {
            numbers: Numbers::of(&groups, &members),
            groups,
            factors,
            sequences,
        }
    }
}

impl Numbers {
    fn of(groups: &[Grouped], members: &[Vec<&Measured>]) -> Self {
        let all = || members.iter().flatten();
        let parts: Vec<f64> = all().filter_map(|m| m.two_longest()).collect();
        let median = |of: fn(&Measured) -> usize| {
            let mut numbers: Vec<usize> = all().map(|m| of(m)).collect();
            numbers.sort_unstable();
            numbers.get(numbers.len() / 2).copied().unwrap_or(0)
        };
        let several: Vec<&Grouped> = groups
            .iter()
            .filter(|g| g.group.transactions.len() > 1)
            .collect();
        let paths = several
            .iter()
            .filter(|g| g.patterns.paths.len() > 1)
            .count();
        let varies = several
            .iter()
            .filter(|g| g.patterns.paths.len() == 1 && g.patterns.dominant_varies)
            .count();
        Numbers {
            two_longest: (!parts.is_empty())
                .then(|| parts.iter().sum::<f64>() / parts.len() as f64),
            edges: (median(|m| m.all_edges), median(|m| m.edges)),
            groups: (several.len(), paths, varies),
        }
    }
}

/// The measured transactions of a group. Both are in the order of their numbers.
fn of_group<'m>(measured: &'m [Measured], group: &Group) -> Vec<&'m Measured> {
    let ids = group.transactions.iter();
    let find = |id| measured.binary_search_by_key(id, |m| m.id).ok();
    ids.filter_map(|id| find(id).map(|i| &measured[i]))
        .collect()
}

fn name(opened: &Opened, group: &Group) -> String {
    match opened.session.string(group.handler) {
        "" => "(not named)".to_owned(),
        name => name.to_owned(),
    }
}

/// Rounded to whole ns.
pub(super) fn ns(value: f64) -> u64 {
    value.round().max(0.0) as u64
}

/// All that was asked for.
pub(super) fn write(
    page: &mut Page,
    opened: &Opened,
    found: &Transactions,
    all: &All,
    arguments: &Arguments,
) -> io::Result<()> {
    list(page, all, arguments)?;
    if arguments.outliers {
        writeln!(page)?;
        write_outliers(page, opened, found, all)?;
    }
    if arguments.anova {
        writeln!(page)?;
        write_variance(page, all)?;
    }
    if arguments.group {
        write_patterns(page, all)?;
    }
    Ok(())
}

fn list(page: &mut Page, all: &All, arguments: &Arguments) -> io::Result<()> {
    let columns = [
        column("group", Kind::Number),
        column("transactions", Kind::Number),
        column("mean", Kind::Number),
        column("deviation", Kind::Number),
        column("median", Kind::Number),
        column("outliers", Kind::Number),
        column("kind", Kind::Text),
        column("what", Kind::Name),
    ];
    let rows = all.groups.iter().enumerate().take(arguments.limit as usize);
    let rows = rows.map(|(i, g)| {
        vec![
            i.to_string().into(),
            count(g.spread.count as u64).into(),
            duration(ns(g.spread.mean)).into(),
            duration(ns(g.spread.deviation)).into(),
            duration(ns(g.spread.median)).into(),
            count(g.outliers.len() as u64).into(),
            g.group.kind.name().into(),
            g.name.as_str().into(),
        ]
    });
    page.table(&columns, &rows.collect::<Vec<_>>())?;
    page.more(all.groups.len().saturating_sub(arguments.limit as usize))
}

fn write_outliers(
    page: &mut Page,
    opened: &Opened,
    found: &Transactions,
    all: &All,
) -> io::Result<()> {
    page.strong("Outliers")?;
    if all.groups.iter().all(|g| g.outliers.is_empty()) {
        let largest = all.groups.iter().map(|g| g.spread.count).max().unwrap_or(0);
        return match largest < LEAST_FOR_MEDIAN {
            true => page.plain(&format!(
                "No group has {LEAST_FOR_MEDIAN} transactions: too few to say what is unusual."
            )),
            false => page.plain("None."),
        };
    }
    let columns = [
        column("id", Kind::Number),
        column("group", Kind::Number),
        column("began", Kind::Number),
        column("took", Kind::Number),
        column("above", Kind::Text),
        column("because of", Kind::Prose),
    ];
    let mut rows = Vec::new();
    for (i, group) in all.groups.iter().enumerate() {
        for outlier in &group.outliers {
            let begin_ns = found
                .get(outlier.id)
                .map_or(0, |t| t.begin_ns.saturating_sub(opened.start_ns(t.thread)));
            let above = match (outlier.by_mean, outlier.by_median) {
                (true, true) => "mean, median",
                (true, false) => "mean",
                _ => "median",
            };
            let blamed: Vec<&str> = outlier.blamed.iter().map(|c| c.name()).collect();
            rows.push(vec![
                outlier.id.0.to_string().into(),
                i.to_string().into(),
                crate::words::time(begin_ns).into(),
                duration(outlier.path_ns).into(),
                above.into(),
                match blamed.is_empty() {
                    true => "no single component".to_owned(),
                    false => blamed.join(", "),
                }
                .into(),
            ]);
        }
    }
    page.table(&columns, &rows)?;
    page.dim(&format!(
        "Above the mean by three standard deviations ({LEAST_FOR_MEAN} transactions or more), or above the median by what three \
         would be without outliers ({LEAST_FOR_MEDIAN} or more)."
    ))
}

fn write_variance(page: &mut Page, all: &All) -> io::Result<()> {
    page.strong("Why transactions of a group differ")?;
    let analysed: Vec<(usize, &Variance)> = all
        .groups
        .iter()
        .enumerate()
        .filter_map(|(i, g)| Some((i, g.variance.as_ref()?)))
        .collect();
    if analysed.is_empty() {
        return page.plain(&format!(
            "No group has {LEAST_FOR_VARIANCE} transactions of different lengths: too few to say why they differ."
        ));
    }
    let columns = [
        column("group", Kind::Number),
        column("what", Kind::Name),
        column("variance by component", Kind::Prose),
    ];
    let row = |(i, variance): &(usize, &Variance)| {
        let parts = variance.parts.iter().filter(|(_, p)| p.abs() >= 0.000_5);
        let parts: Vec<String> = parts
            .map(|(c, p)| format!("{} {:.1} %", c.name(), p * 100.0))
            .collect();
        vec![
            i.to_string().into(),
            all.groups[*i].name.as_str().into(),
            parts.join(", ").into(),
        ]
    };
    page.table(&columns, &analysed.iter().map(row).collect::<Vec<_>>())?;
    let sure: Vec<&Factor> = all.factors.iter().filter(|f| f.q < SIGNIFICANT).collect();
    for factor in &sure {
        let values: Vec<String> = factor
            .values
            .iter()
            .map(|(value, n, mean)| {
                format!(
                    "{value}: mean {} of {}",
                    duration(ns(*mean)),
                    count(*n as u64)
                )
            })
            .collect();
        page.plain(&format!(
            "Group {}: {} explains {:.1} % of the variance (q = {:.2e}). {}.",
            factor.group,
            factor.name,
            factor.explained * 100.0,
            factor.q,
            values.join("; ")
        ))?;
    }
    if all.factors.is_empty() {
        page.dim("No fact about devices or processes differs inside a group.")?;
    } else if sure.is_empty() {
        let tested = counted(all.factors.len() as u64, "fact was", "facts were");
        page.dim(&format!(
            "No fact about devices or processes explains a difference ({tested} tested, corrected for their number)."
        ))?;
    }
    Ok(())
}

fn write_patterns(page: &mut Page, all: &All) -> io::Result<()> {
    let mut sentences: Vec<String> = Vec::new();
    for (i, g) in all.groups.iter().enumerate() {
        sentences.extend(of_patterns(i, g));
    }
    for &((from, to), times) in all.sequences.iter().filter(|s| s.1 > 1).take(3) {
        sentences.push(format!(
            "Group {to} followed group {from} {}.",
            counted(times as u64, "time", "times")
        ));
    }
    sentences.extend(numbers(&all.numbers));
    if !sentences.is_empty() {
        writeln!(page)?;
        page.strong("Patterns")?;
    }
    for sentence in sentences {
        page.plain(&sentence)?;
    }
    Ok(())
}

fn of_patterns(index: usize, g: &Grouped) -> Vec<String> {
    let mut found = Vec::new();
    let of = |n: usize| format!("{} of {}", count(n as u64), count(g.spread.count as u64));
    if let [most, _, ..] = &g.patterns.paths[..] {
        found.push(format!(
            "Group {index} has {} different critical paths; the most common one, of {} transactions, is that of transaction {}.",
            count(g.patterns.paths.len() as u64),
            of(most.count),
            most.example.0
        ));
    }
    if g.patterns.interrupted > 0 {
        let wasted = match g.patterns.wasted_ns {
            0 => String::new(),
            ns => format!("; afterwards they used {} of CPU time", duration(ns)),
        };
        found.push(format!(
            "Group {index}: {} transactions were interrupted by the next one{wasted}.",
            of(g.patterns.interrupted)
        ));
    }
    if let Some(serial) = g.patterns.serial_requests {
        found.push(format!(
            "Group {index}: {} transactions make several network requests one after the other on the critical path: made at the \
             same time, they would take less.",
            of(serial)
        ));
    }
    if let Some(first) = g.patterns.first_use {
        found.push(format!(
            "Group {index}: the first one of a process took {} (median of {}), later ones {}: what is loaded or initialized then?",
            duration(ns(first.first_ns)),
            counted(first.processes as u64, "process", "processes"),
            duration(ns(first.later_ns))
        ));
    }
    found
}

fn numbers(numbers: &Numbers) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(part) = numbers.two_longest {
        found.push(format!(
            "The two longest stages take {:.1} % of a critical path, on average. A transaction has {} (median), its critical path {}.",
            part * 100.0,
            counted(numbers.edges.0 as u64, "edge", "edges"),
            count(numbers.edges.1 as u64)
        ));
    }
    let (groups, several, varies) = numbers.groups;
    if groups > 1 {
        found.push(format!(
            "Of {} with two or more transactions, {} have several critical paths; in {} with one, the longest stage varies.",
            counted(groups as u64, "group", "groups"),
            percent(several as u64, groups as u64),
            percent(varies as u64, groups as u64)
        ));
    }
    found
}
