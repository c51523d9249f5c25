// SPDX-License-Identifier: Apache-2.0
//! Debian's stock kernel: its package is downloaded and unpacked below the cache folder, not installed.

use crate::build::Apt;
use crate::error::{Error, IoContext as _, Result};
use crate::util::{create_dir, read, remove, unpack_deb, write_atomic};
use std::path::{Path, PathBuf};

/// The package that depends on the newest kernel of the suite.
const PACKAGE: &str = "linux-image-amd64";
const SUITE: &str = "bookworm";
/// The modules that the guest loads, in this order, below `kernel/` of the modules' folder. One that is not there is
/// part of the kernel itself.
const MODULES: [&str; 7] = [
    "drivers/virtio/virtio.ko",
    "drivers/virtio/virtio_ring.ko",
    "drivers/virtio/virtio_pci_legacy_dev.ko",
    "drivers/virtio/virtio_pci_modern_dev.ko",
    "drivers/virtio/virtio_pci.ko",
    "drivers/block/virtio_blk.ko",
    "drivers/android/binder_linux.ko",
];

/// tar's options: the kernel and the folders of these modules.
const UNPACKED: [&str; 5] = [
    "--wildcards",
    "./boot/vmlinuz-*",
    "./lib/modules/*/kernel/drivers/virtio",
    "./lib/modules/*/kernel/drivers/block/virtio_blk.ko",
    "./lib/modules/*/kernel/drivers/android",
];

/// An unpacked kernel.
pub(super) struct Kernel {
    /// The compressed kernel, as qemu loads it.
    pub(super) image: PathBuf,
    /// The modules to load, in order.
    pub(super) modules: Vec<PathBuf>,
}

/// Downloads and unpacks the kernel, unless `dir` has it.
pub(super) fn prepare(dir: &Path, progress: &dyn Fn(&str)) -> Result<Kernel> {
    let name_file = dir.join("package");
    if !name_file.exists() {
        download(dir, &name_file, progress)?;
    }
    let unpacked = dir.join(read(&name_file)?.trim());
    let image = the_only_file(&unpacked.join("boot"))?;
    let modules = the_only_file(&unpacked.join("lib/modules"))?.join("kernel");
    let modules = MODULES.map(|name| modules.join(name));
    Ok(Kernel {
        image,
        modules: modules.into_iter().filter(|path| path.exists()).collect(),
    })
}

fn download(dir: &Path, name_file: &Path, progress: &dyn Fn(&str)) -> Result<()> {
    progress("downloading Debian's kernel");
    create_dir(dir)?;
    let apt = Apt::new(&dir.join("apt"), &[SUITE.to_owned()])?;
    apt.update()?;
    let package = apt
        .dependencies(PACKAGE)?
        .into_iter()
        .find(|name| name.starts_with("linux-image-"))
        .ok_or_else(|| Error::Other(format!("the package {PACKAGE} depends on no kernel")))?;
    let work = tempfile::tempdir_in(dir).context("make a folder in", dir)?;
    apt.binaries(std::slice::from_ref(&package), work.path())?;
    let deb = the_only_file(work.path())?;
    let unpacked = work.path().join("unpacked");
    create_dir(&unpacked)?;
    unpack_deb(&deb, &unpacked, &UNPACKED)?;
    let target = dir.join(&package);
    remove(&target)?;
    std::fs::rename(&unpacked, &target).context("write", &target)?;
    write_atomic(name_file, package.as_bytes())
}

/// The only file or folder in a folder.
fn the_only_file(dir: &Path) -> Result<PathBuf> {
    let found: std::io::Result<Vec<_>> = std::fs::read_dir(dir).and_then(Iterator::collect);
    match found.context("list", dir)?.as_slice() {
        [one] => Ok(one.path()),
        others => Err(Error::Other(format!(
            "{} has {} files instead of one: remove it, and run the command again",
            dir.display(),
            others.len()
        ))),
    }
}
