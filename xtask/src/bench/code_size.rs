// SPDX-License-Identifier: Apache-2.0
//! How much code trace points add to what is compiled ahead of time.

use std::fs;
use std::path::Path;

use anyhow::{ensure, Context as _, Result};
use object::{Object as _, ObjectSection as _};

/// Bytes of machine code in the oat files of a boot image, given as ART takes it: without the folder of the
/// instruction set.
pub(crate) fn boot_image_text(image: &Path, isa: &str) -> Result<u64> {
    let folder = image.with_file_name(isa);
    let mut bytes = 0;
    for entry in
        fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?
    {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "oat") {
            let file =
                fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let oat = object::File::parse(&*file)
                .with_context(|| format!("{} is no ELF file", path.display()))?;
            bytes += oat
                .section_by_name(".text")
                .map_or(0, |section| section.size());
        }
    }
    ensure!(bytes > 0, "{} holds no compiled code", folder.display());
    Ok(bytes)
}
