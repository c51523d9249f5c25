// SPDX-License-Identifier: Apache-2.0
//! Builds the app's APK with Debian's tools, signs it with a key of its own, and has it checked.

use anyhow::{bail, ensure, Context as _, Result};
use std::path::Path;
use std::process::Command;

/// The app's package.
pub const PACKAGE: &str = "dev.hindsight.boottest";
/// Its activity.
pub const ACTIVITY: &str = ".StallActivity";

/// The resources that the manifest's attributes are declared in.
const FRAMEWORK: &str = "/usr/share/android-framework-res/framework-res.apk";
/// The key is made for one build, and thrown away with it.
const PASSWORD: &str = "boot-test";

/// Puts `dex` (a file `classes.dex`) and the manifest into an APK, aligns and signs it.
///
/// # Errors
/// If a tool is missing, which is named with its package, or fails.
pub fn build(manifest: &Path, dex: &Path, apk: &Path) -> Result<()> {
    ensure!(
        Path::new(FRAMEWORK).exists(),
        "{FRAMEWORK} is not there: install the Debian package android-framework-res"
    );
    let work = tempfile::tempdir()?;
    let path = |name: &str| work.path().join(name);
    std::fs::copy(dex, path("classes.dex")).with_context(|| format!("no {}", dex.display()))?;
    let mut package = Command::new("aapt");
    package
        .args(["package", "-f", "-I", FRAMEWORK, "-M"])
        .arg(manifest);
    run(package.arg("-F").arg(path("plain.apk")), "aapt")?;
    let mut add = Command::new("aapt");
    add.current_dir(work.path())
        .args(["add", "plain.apk", "classes.dex"]);
    run(&mut add, "aapt")?;
    let mut align = Command::new("zipalign");
    align
        .args(["-f", "4"])
        .arg(path("plain.apk"))
        .arg(path("aligned.apk"));
    run(&mut align, "zipalign")?;
    let mut key = Command::new("keytool");
    key.args([
        "-genkeypair",
        "-keyalg",
        "RSA",
        "-keysize",
        "2048",
        "-validity",
        "30",
    ]);
    key.args(["-alias", "boot-test", "-dname", "CN=Hindsight boot test"]);
    key.args(["-storepass", PASSWORD, "-keypass", PASSWORD, "-keystore"]);
    run(key.arg(path("key")), "openjdk-17-jdk-headless")?;
    let mut sign = Command::new("apksigner");
    sign.args(["sign", "--ks-pass", &format!("pass:{PASSWORD}"), "--ks"]);
    sign.arg(path("key"))
        .arg("--out")
        .arg(apk)
        .arg(path("aligned.apk"));
    run(&mut sign, "apksigner").map(drop)
}

/// Has aapt read the APK, apksigner its signature, and zipalign its alignment; returns what they say, in one line.
///
/// # Errors
/// If one of them rejects it, or it is not the app.
pub fn check(apk: &Path) -> Result<String> {
    let badging = run(
        Command::new("aapt").args(["dump", "badging"]).arg(apk),
        "aapt",
    )?;
    let named = |text: &str| -> Result<()> {
        ensure!(
            badging.contains(text),
            "aapt does not find {text}: {badging}"
        );
        Ok(())
    };
    named(&format!("package: name='{PACKAGE}'"))?;
    named("sdkVersion:'29'")?;
    named(&format!("launchable-activity: name='{PACKAGE}{ACTIVITY}'"))?;
    let listed = run(Command::new("aapt").arg("list").arg(apk), "aapt")?;
    ensure!(
        listed.lines().any(|name| name == "classes.dex"),
        "it has no classes.dex: {listed}"
    );
    let mut verify = Command::new("apksigner");
    verify.args(["verify", "--verbose", "--min-sdk-version", "29"]);
    let verified = run(verify.arg(apk), "apksigner")?;
    // Android 10 knows the third scheme; apksigner leaves out those that no older release needs.
    let scheme = verified
        .lines()
        .find(|line| line.starts_with("Verified using v3") && line.ends_with("true"))
        .with_context(|| format!("it has no signature of scheme v3: {verified}"))?;
    let mut align = Command::new("zipalign");
    run(align.args(["-c", "4"]).arg(apk), "zipalign")?;
    Ok(format!("{PACKAGE}, {scheme}"))
}

/// Runs a tool of a Debian package to its end; returns its output.
pub(crate) fn run(command: &mut Command, package: &str) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot run {program}: install the Debian package {package}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!(
            "{program} ended with {}: {said}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(said)
}
