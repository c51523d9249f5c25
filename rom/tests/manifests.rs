// SPDX-License-Identifier: Apache-2.0
//! The local manifests of `manifests/`: read by our own strict reader, and by repo's.

mod common;

use common::checkout;
use hindsight_rom::manifest::load;
use hindsight_rom::project::Project;
use hindsight_rom::release::Release;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn each_pins_its_release_and_all_that_has_patches() {
    for release in Release::ALL {
        let pinned = load(&release.manifest(&checkout())).unwrap();
        assert!(
            pinned.iter().all(|project| project.tag == release.tag()),
            "{release}"
        );
        assert!(
            pinned.iter().any(|project| project.path == "art"),
            "{release}"
        );
        // Fails if a folder of patches has no pin.
        Project::all(&checkout(), Path::new("/"), release).unwrap();
    }
}

/// With repo's own parser. No Debian package has its sources installed, so this test is not run by default.
#[test]
#[ignore = "needs repo's sources: HINDSIGHT_REPO_SOURCE names a checkout, such as .repo/repo of a tree"]
fn repo_itself_reads_them() {
    let repo = std::env::var_os("HINDSIGHT_REPO_SOURCE")
        .map(PathBuf::from)
        .expect("HINDSIGHT_REPO_SOURCE names no checkout of repo");
    assert!(
        repo.join("manifest_xml.py").exists(),
        "{} is no checkout of repo",
        repo.display()
    );
    for release in Release::ALL {
        let client = tempfile::tempdir().unwrap();
        let dir = client.path().join(".repo");
        std::fs::create_dir_all(dir.join("local_manifests")).unwrap();
        std::fs::create_dir_all(dir.join("manifests")).unwrap();
        let git = Command::new("git")
            .args(["init", "-q", "--bare"])
            .arg(dir.join("manifests.git"))
            .status();
        assert!(git.unwrap().success());
        // Stands for AOSP's own manifest, which has the projects.
        let mut main = "<manifest><remote name=\"aosp\" fetch=\"..\"/><default revision=\"main\" remote=\"aosp\"/>".to_owned();
        let pinned = load(&release.manifest(&checkout())).unwrap();
        for project in &pinned {
            main += &format!(
                "<project path=\"{}\" name=\"{}\"/>",
                project.path, project.name
            );
        }
        std::fs::write(dir.join("manifest.xml"), main + "</manifest>").unwrap();
        std::fs::copy(
            release.manifest(&checkout()),
            dir.join("local_manifests/hindsight.xml"),
        )
        .unwrap();
        let script = "import sys, os\nsys.path.insert(0, sys.argv[1])\nimport manifest_xml\n\
                      d = sys.argv[2]\nm = manifest_xml.XmlManifest(d, os.path.join(d, 'manifest.xml'), \
                      os.path.join(d, 'local_manifests'))\n\
                      for p in m.projects: print(p.relpath, p.revisionExpr)\n";
        let output = Command::new("python3")
            .args(["-c", script])
            .arg(&repo)
            .arg(&dir)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let read = String::from_utf8(output.stdout).unwrap();
        for project in &pinned {
            let line = format!("{} refs/tags/{}", project.path, project.tag);
            assert!(
                read.lines().any(|l| l == line),
                "{release}: no '{line}' in {read}"
            );
        }
    }
}
