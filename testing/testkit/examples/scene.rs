// SPDX-License-Identifier: Apache-2.0
//! Writes a scene's file: `cargo run -p hindsight-testkit --example scene -- NAME FILE`; without arguments, lists the
//! names. `all FOLDER` writes every scene as `FOLDER/NAME.hindsight`.

use std::path::Path;
use std::process::ExitCode;

use hindsight_testkit::SCENES;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let written = match &arguments[..] {
        [name, folder] if name == "all" => SCENES.iter().try_for_each(|(name, scene)| {
            std::fs::write(Path::new(folder).join(format!("{name}.hindsight")), scene())
        }),
        [wanted, file] => match SCENES.iter().find(|(name, _)| name == wanted) {
            Some((_, scene)) => std::fs::write(file, scene()),
            None => return usage(),
        },
        _ => return usage(),
    };
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("scene: {e}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    let names = SCENES.map(|(name, _)| name).join("|");
    eprintln!("usage: scene {names} FILE, or scene all FOLDER");
    ExitCode::FAILURE
}
