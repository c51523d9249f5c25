// SPDX-License-Identifier: Apache-2.0
//! The static libraries for Android, compiled for each target whose standard library is installed: they are for
//! the right machine, define every function that ART's C++ and the service's C++ call, and need no symbol that
//! Android lacks.

use hindsight_rom::runner::Runner;
use hindsight_rom::rust_libs::{
    build, missing, std_for, Library, Target, ART_HOOKS, LIBRARIES, PERFETTO, SERVICE, TARGETS,
    UPLOADER,
};
use object::read::archive::ArchiveFile;
use object::{Architecture, Object as _, ObjectSymbol as _};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn checkout() -> PathBuf {
    Path::new(env!("HINDSIGHT_CHECKOUT"))
        .canonicalize()
        .unwrap()
}

fn architecture(target: Target) -> Architecture {
    match target.triple.split('-').next() {
        Some("aarch64") => Architecture::Aarch64,
        Some("armv7") => Architecture::Arm,
        Some("x86_64") => Architecture::X86_64,
        Some("i686") => Architecture::I386,
        _ => panic!("{target:?}"),
    }
}

/// The functions that the header declares.
fn declared() -> BTreeSet<String> {
    let header = checkout().join("art-hooks/include/hindsight/runtime/recorder_abi.h");
    let text = std::fs::read_to_string(header).unwrap();
    text.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '(')))
        .filter_map(|word| word.split_once('('))
        .filter(|(name, _)| name.starts_with("hindsight_"))
        .map(|(name, _)| name.to_owned())
        .collect()
}

/// The symbols that a library defines, and those that it needs from others.
fn symbols(library: &Path, target: Target) -> (BTreeSet<String>, BTreeSet<String>) {
    let bytes = std::fs::read(library).unwrap();
    let archive = ArchiveFile::parse(&*bytes).unwrap();
    let (mut defined, mut needed) = (BTreeSet::new(), BTreeSet::new());
    let mut objects = 0;
    for member in archive.members() {
        let member = member.unwrap();
        let name = String::from_utf8_lossy(member.name()).into_owned();
        let Ok(object) = object::File::parse(member.data(&*bytes).unwrap()) else {
            // Rust's own metadata.
            assert!(!name.ends_with(".o"), "{name} is no object file");
            continue;
        };
        assert_eq!(object.architecture(), architecture(target), "{name}");
        objects += 1;
        for symbol in object.symbols() {
            let Ok(name) = symbol.name() else { continue };
            if symbol.is_undefined() {
                // Rust does without a missing weak symbol (Android 10 has no copy_file_range).
                if symbol.is_weak() {
                    continue;
                }
                needed.insert(name.to_owned());
            } else if symbol.is_global() || symbol.is_weak() {
                defined.insert(name.to_owned());
            }
        }
    }
    assert!(objects > 0, "{} has no objects", library.display());
    let needed = needed.difference(&defined).filter(|name| !name.is_empty());
    let needed = needed.cloned().collect();
    (defined, needed)
}

/// Every symbol of Rust, in either mangling, must be in the library itself.
fn has_all_of_rust(needed: &BTreeSet<String>, target: Target) {
    let lost: Vec<_> = needed
        .iter()
        .filter(|name| name.starts_with("_R") || name.starts_with("_ZN"))
        .collect();
    assert!(lost.is_empty(), "{}: {lost:?}", target.triple);
}

/// Functions that bionic has since Android 11 or later, by the list of changes in its documentation: a library that needs one does
/// not link in Android 10.
const NEWER_THAN_10: [&str; 12] = [
    "memfd_create",
    "mlock2",
    "renameat2",
    "statx",
    "pthread_cond_clockwait",
    "sem_clockwait",
    "process_madvise",
    "preadv64v2",
    "pwritev64v2",
    "pidfd_open",
    "close_range",
    "copy_file_range",
];

fn links_in_android_10(needed: &BTreeSet<String>, library: &Path) {
    let newer = NEWER_THAN_10.iter().filter(|name| needed.contains(**name));
    let newer: Vec<_> = newer.collect();
    assert!(newer.is_empty(), "{}: {newer:?}", library.display());
}

/// A program's library has the function that its C++ calls, and nothing of ART's.
fn program_has_its_entry(overlay: &Path, target: Target, library: Library, entry: &str) {
    let path = overlay.join(library.path(target));
    let (defined, needed) = symbols(&path, target);
    let entries: Vec<_> = defined
        .iter()
        .filter(|name| name.starts_with("hindsight"))
        .collect();
    assert_eq!(entries, [entry], "{}", target.triple);
    has_all_of_rust(&needed, target);
    links_in_android_10(&needed, &path);
    // The C code of the uploader's TLS library, which names its functions so, is there whole.
    let lost: Vec<_> = needed
        .iter()
        .filter(|name| name.starts_with("ring_core"))
        .collect();
    assert!(lost.is_empty(), "{}: {lost:?}", target.triple);
    println!(
        "{}: {} bytes; needs {}",
        path.display(),
        std::fs::metadata(&path).unwrap().len(),
        needed.into_iter().collect::<Vec<_>>().join(" ")
    );
}

#[test]
#[ignore = "compiles the Rust half for each Android target: a minute of processor time"]
fn the_static_libraries_for_android_compile_and_have_what_cpp_calls() {
    let functions = declared();
    assert!(
        functions.contains("hindsight_record_entry"),
        "{functions:?}"
    );
    let overlay = tempfile::tempdir().unwrap();
    let mut compiled = 0;
    for target in TARGETS.into_iter().filter(|target| target.is_android()) {
        if let Err(why) = std_for(target) {
            println!("{}: skipped: {why}", target.triple);
            continue;
        }
        build(&checkout(), overlay.path(), &[target], Runner::default()).unwrap();
        for (library, entry) in [
            (SERVICE, "hindsightd_main"),
            (PERFETTO, "hindsight_perfetto_main"),
            (UPLOADER, "hindsight_upload_main"),
        ] {
            program_has_its_entry(overlay.path(), target, library, entry);
        }
        let library = overlay.path().join(ART_HOOKS.path(target));
        let (defined, needed) = symbols(&library, target);
        let of_libm: Vec<_> = ["cbrt", "fmod", "fmodf", "sqrt", "rint", "floor"]
            .into_iter()
            .filter(|name| defined.contains(*name))
            .collect();
        assert!(of_libm.is_empty(), "{}: {of_libm:?}", target.triple);
        let missing: Vec<_> = functions.difference(&defined).collect();
        assert!(missing.is_empty(), "{}: {missing:?}", target.triple);
        // The other half of the bridge is compiled by Soong.
        let needed: BTreeSet<_> = needed
            .into_iter()
            .filter(|name| !name.contains("cxxbridge1$"))
            .collect();
        has_all_of_rust(&needed, target);
        links_in_android_10(&needed, &library);
        println!(
            "{}: {} bytes; needs {}",
            target.triple,
            std::fs::metadata(&library).unwrap().len(),
            needed.into_iter().collect::<Vec<_>>().join(" ")
        );
        compiled += 1;
    }
    assert!(
        compiled > 0 || std::env::var_os("HINDSIGHT_NEEDS_ANDROID_STD").is_none(),
        "no Android target has a standard library"
    );
}

/// A target counts as missing until each library that it needs is there: the host needs no service.
#[test]
fn a_target_is_missing_until_all_its_libraries_are_there() {
    let overlay = tempfile::tempdir().unwrap();
    let put = |library: &Path| {
        let path = overlay.path().join(library);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    };
    let product = "aosp_cf_x86_64_phone";
    let all = missing(overlay.path(), product);
    assert_eq!(all.len(), 4);
    let targets = Target::of_product(product);
    targets
        .iter()
        .for_each(|target| put(&ART_HOOKS.path(*target)));
    let android = ["x86_64-linux-android", "i686-linux-android"];
    assert_eq!(missing(overlay.path(), product), android);
    for library in &LIBRARIES[1..] {
        assert_eq!(missing(overlay.path(), product), android);
        for target in targets.iter().filter(|target| library.is_for(**target)) {
            assert!(target.is_android());
            put(&library.path(*target));
        }
    }
    assert!(missing(overlay.path(), product).is_empty());
    hindsight_rom::rust_libs::remove(overlay.path()).unwrap();
    assert!(!overlay.path().exists(), "folders are left");
}
