// SPDX-License-Identifier: Apache-2.0
//! `apply`, `undo` and `status`: the patches and the overlay of a tree.

use crate::context::{Context, GIT};
use anyhow::{bail, Result};
use hindsight_rom::overlay::{self, Overlay};
use hindsight_rom::project::{patches, State};
use hindsight_rom::rust_libs;

pub(crate) fn apply(context: &Context) -> Result<()> {
    context.check(1, 0, &[GIT])?;
    let _lock = context.lock()?;
    let projects = context.projects()?;
    let overlay = context.overlay()?;
    // All projects are checked before the first one is changed.
    let mut problems = Vec::new();
    let mut work = Vec::new();
    for project in &projects {
        match project.state() {
            Ok((State::Foreign(why), _)) => problems.push(why),
            Ok((State::OtherVersion, _)) => {
                problems.push(format!("{}: {}", project.pinned.path, State::OtherVersion));
            }
            Ok((state, _)) => work.push((project, state)),
            Err(error) => problems.push(format!("{error:#}")),
        }
    }
    if let Err(error) = overlay.is_current() {
        problems.push(format!("{error:#}"));
    }
    if !problems.is_empty() {
        bail!(
            "{} is not ready; nothing has been touched:\n{}",
            context.tree.display(),
            problems.join("\n")
        );
    }
    for (project, state) in work {
        let n = patches(project.patches.len());
        if state == State::Applied {
            println!("{}: {n}, in already", project.pinned.path);
        } else if context
            .runner
            .does(&format!("apply {n} to {} ({state})", project.pinned.path))
        {
            project.apply()?;
            println!("{}: {n}, now in", project.pinned.path);
        }
    }
    context.say_what_is_by_hand()?;
    if overlay.is_current()? {
        println!("{}: up to date", overlay::PATH);
    } else if context.runner.does(&format!(
        "copy {} files to {}",
        overlay.paths().count(),
        overlay::PATH
    )) {
        let change = overlay.update()?;
        println!(
            "{}: {} files written, {} removed",
            overlay::PATH,
            change.written,
            change.removed
        );
    }
    Ok(())
}

pub(crate) fn undo(context: &Context) -> Result<()> {
    context.check(0, 0, &[GIT])?;
    let _lock = context.lock()?;
    if context.runner.dry_run {
        for project in context.projects()? {
            context
                .runner
                .does(&format!("take the patches out of {}", project.pinned.path));
        }
        context.runner.does(&format!("remove {}", overlay::PATH));
        return Ok(());
    }
    let mut problems = Vec::new();
    for project in context.projects()? {
        match project.undo() {
            Ok(true) => println!("{}: restored", project.pinned.path),
            Ok(false) => println!("{}: no patches of Hindsight are in", project.pinned.path),
            Err(error) => problems.push(format!("{error:#}")),
        }
    }
    match Overlay::remove(&context.tree) {
        Ok(change) => {
            println!("{}: {} files removed", overlay::PATH, change.removed);
            rust_libs::remove(&context.tree.join(overlay::PATH))?;
        }
        Err(error) => problems.push(format!("{error:#}")),
    }
    if !problems.is_empty() {
        bail!("everything else is undone, but:\n{}", problems.join("\n"));
    }
    Ok(())
}

pub(crate) fn status(context: &Context) -> Result<()> {
    println!(
        "{} ({}) in {}",
        context.release,
        context.release.tag(),
        context.tree.display()
    );
    for project in context.projects()? {
        let state = match project.state() {
            Ok((state, _)) => state.to_string(),
            Err(error) => format!("{error:#}"),
        };
        println!(
            "{}: {}: {state}",
            project.pinned.path,
            patches(project.patches.len())
        );
    }
    context.say_what_is_by_hand()?;
    match context.overlay()?.is_current() {
        Ok(true) => println!("{}: up to date", overlay::PATH),
        Ok(false) => println!("{}: apply has files to copy", overlay::PATH),
        Err(error) => println!("{}: {error:#}", overlay::PATH),
    }
    let product = context.release.products()[0];
    let missing = rust_libs::missing(&context.tree.join(overlay::PATH), product);
    if missing.is_empty() {
        println!("Rust libraries for {product}: complete");
    } else {
        println!(
            "Rust libraries for {product}: build has to compile them for {}",
            missing.join(", ")
        );
    }
    Ok(())
}
