// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask bench code-size`: the code that trace points add to a boot image.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{ensure, Context as _, Result};
use hindsight_lab::{Error, Framework, Isa, Lab, Release, Variant};
use object::{Object as _, ObjectSection as _};

use hindsight_verify::boot_images::{self, Form, Image};

/// Bytes of an image's oat files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    /// Machine code.
    text: u64,
    /// The whole files.
    files: u64,
}

/// Compiles the lab's boot image for every instruction set with every form of trace points and with none, and
/// compares the sizes.
pub(super) fn bench(checkout: &Path) -> Result<BTreeMap<String, f64>> {
    let lab = Lab::open(Release::Android10, Isa::X86_64, Variant::Hindsight)?;
    let framework = Framework::build(&lab, &|step| eprintln!("bench: building {step}"))?;
    let stock = match Lab::open(Release::Android10, Isa::X86_64, Variant::Stock) {
        Ok(lab) => Some(lab),
        Err(Error::NotBuilt { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let compile = |lab: &Lab, isa: Isa, form: Form, name: &str| {
        let folder = checkout
            .join("target/verify/oat")
            .join(format!("{}-{name}", isa.name()));
        boot_images::compile(lab, &framework, isa, form, &folder).and_then(|image| size(&image))
    };

    let mut metrics = BTreeMap::new();
    println!(
        "{:>7} {:>23} {:>13} {:>8} {:>8}",
        "isa", "form", ".text", "%", "files %"
    );
    for isa in Isa::ALL {
        let none = compile(&lab, isa, Form::None, "none")?;
        for (form, suffix) in [
            (Form::None, ""),
            (Form::Shared, ""),
            (Form::SharedWithoutTrivial, "_without_trivial"),
            (Form::Inline, "_inline"),
        ] {
            let size = compile(&lab, isa, form, form.name())?;
            let text = growth_pct(none.text, size.text);
            let files = growth_pct(none.files, size.files);
            println!(
                "{:>7} {:>23} {:>13} {text:>8.2} {files:>8.2}",
                isa.name(),
                form.name(),
                size.text
            );
            let isa = isa.name();
            if form != Form::None {
                metrics.insert(format!("growth_pct_{isa}{suffix}"), text);
                metrics.insert(format!("file_growth_pct_{isa}{suffix}"), files);
            }
            let form = form.name().replace('-', "_");
            metrics.insert(format!("text_bytes_{isa}_{form}"), size.text as f64);
        }
        if let Some(stock) = &stock {
            let stock = compile(stock, isa, Form::None, "stock")?;
            ensure!(
                stock.text == none.text,
                "without trace points, {} bytes of code for {}, but {} by stock ART: Hindsight's patches \
                 change code that they must leave alone",
                none.text,
                isa.name(),
                stock.text
            );
        }
    }
    match stock {
        Some(_) => println!("without trace points: the same number of bytes as by stock ART"),
        None => println!(
            "not compared with stock ART, which is not built: cargo xtask lab build --stock"
        ),
    }
    Ok(metrics)
}

fn growth_pct(from: u64, to: u64) -> f64 {
    (to as f64 / from as f64 - 1.0) * 100.0
}

fn size(image: &Image) -> Result<Size> {
    let mut files = 0;
    for path in &image.oat_files {
        files += fs::metadata(path)
            .with_context(|| format!("cannot find {}", path.display()))?
            .len();
    }
    Ok(Size {
        text: text_bytes(&image.oat_files)?,
        files,
    })
}

/// Bytes of machine code in the oat files of a boot image, whose path is given as in ART's options: without the
/// folder of the instruction set.
pub(crate) fn boot_image_text(image: &Path, isa: &str) -> Result<u64> {
    let folder = image.with_file_name(isa);
    let mut files = Vec::new();
    for entry in
        fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?
    {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "oat") {
            files.push(path);
        }
    }
    let bytes = text_bytes(&files)?;
    ensure!(bytes > 0, "{} holds no compiled code", folder.display());
    Ok(bytes)
}

fn text_bytes(oat_files: &[PathBuf]) -> Result<u64> {
    let mut bytes = 0;
    for path in oat_files {
        let file = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let oat = object::File::parse(&*file)
            .with_context(|| format!("{} is no ELF file", path.display()))?;
        bytes += oat
            .section_by_name(".text")
            .map_or(0, |section| section.size());
    }
    Ok(bytes)
}
