// SPDX-License-Identifier: Apache-2.0
//! Programs on finished builds. Run with `--ignored` after `cargo xtask lab build` and, for the tests of other
//! instruction sets, `cargo xtask lab build --isa arm64` and `--isa arm`.

use hindsight_lab::{BootImageSpec, BootJar, Isa, JavaLibrary, Lab, Parts, Release, Variant};
use std::path::{Path, PathBuf};
use std::process::Command;

fn lab() -> Lab {
    Lab::open_parts(
        Release::Android10,
        Isa::X86_64,
        Variant::Hindsight,
        Parts::Programs,
    )
    .unwrap()
}

/// The labs under qemu.
fn arm_labs() -> [Lab; 2] {
    [Isa::Arm64, Isa::Arm]
        .map(|isa| Lab::open(Release::Android10, isa, Variant::Hindsight).unwrap())
}

/// Compiles one source to a jar, and keeps its class files beside it.
fn compile(lab: &Lab, dir: &Path, name: &str, source: &str) -> PathBuf {
    let file = dir.join(format!("{name}.java"));
    std::fs::write(&file, source).unwrap();
    let jar = dir.join(format!("{name}.jar"));
    let library = JavaLibrary {
        sources: vec![file],
        class_output: Some(dir.join("classes")),
        ..JavaLibrary::default()
    };
    lab.compile_java(&library, &jar).unwrap();
    jar
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (out, err) = (
        output.stdout,
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    assert!(
        output.status.success(),
        "{command:?}: {}\n{err}",
        output.status
    );
    String::from_utf8(out).unwrap()
}

/// Lambdas that capture, method references of all kinds, string concatenation, nested classes,
/// locale, time zones, exceptions and threads.
const FEATURES: &str = r#"
import java.util.*;
import java.util.function.*;
import java.util.stream.*;

public class Features {
  interface Greeter { String greet(String name); default Greeter twice() { return n -> greet(greet(n)); } }
  private final String prefix;
  private Features(String prefix) { this.prefix = prefix; }
  private String add(String name) { return prefix + name; }

  public static void main(String[] args) throws Exception {
    Features f = new Features("Hello, ");
    Greeter greeter = f::add;
    System.out.println(greeter.twice().greet("lab"));
    Function<String, Features> make = Features::new;
    System.out.println(make.apply("x").add("y") + 1 + 'c' + 2L + 1.5f + null);
    System.out.println(IntStream.range(0, 5).mapToObj(i -> "n" + i).collect(Collectors.joining(",")));
    Supplier<int[]> array = () -> new int[3];
    System.out.println(array.get().length);
    int[] counts = new int[1];
    Thread thread = new Thread(() -> counts[0] = 7);
    thread.start();
    thread.join();
    System.out.println(counts[0]);
    try {
      ((Object) "text").equals(args[5]);
    } catch (ArrayIndexOutOfBoundsException e) {
      System.out.println("caught " + (e.getMessage() != null));
    }
    try {
      recurse(0);
    } catch (StackOverflowError e) {
      System.out.println("overflow");
    }
    System.out.println(String.format(Locale.GERMANY, "%,.2f", 1234567.891));
    System.out.println(TimeZone.getTimeZone("Asia/Kolkata").getOffset(0));
    System.out.println(System.getProperty("java.vm.name"));
    System.exit(7);
  }

  static int recurse(int n) { return recurse(n + 1) + 1; }
}
"#;

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn a_program_runs_and_its_exit_code_is_kept() {
    let lab = lab();
    let dir = tempfile::tempdir().unwrap();
    let jar = compile(&lab, dir.path(), "Features", FEATURES);
    for mode in ["-Xint", "-Xusejit:true"] {
        check_features(&lab, mode, &jar);
    }
}

#[test]
#[ignore = "needs the labs: cargo xtask lab build --isa arm64; cargo xtask lab build --isa arm"]
fn a_program_runs_on_arm_interpreted_and_compiled() {
    for lab in arm_labs() {
        let dir = tempfile::tempdir().unwrap();
        let jar = compile(&lab, dir.path(), "Features", FEATURES);
        check_features(&lab, "-Xint", &jar);
        check_features(&lab, "-Xusejit:true", &jar);
        let oat = dir.path().join("oat").join(lab.isa().name());
        std::fs::create_dir_all(&oat).unwrap();
        let mut command = lab.dex2oat_command();
        command.arg(format!("--dex-file={}", jar.display()));
        command.arg(format!("--oat-file={}/Features.odex", oat.display()));
        command.args(["--compiler-filter=speed", "--class-loader-context=PCL[]"]);
        output(&mut command);
        check_features(&lab, "-Xusejit:false", &jar);
    }
}

/// Runs [`FEATURES`] and checks its output.
fn check_features(lab: &Lab, mode: &str, jar: &Path) {
    let output = lab
        .dalvikvm_command()
        .arg(mode)
        .arg("-cp")
        .arg(jar)
        .arg("Features")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "Hello, Hello, lab",
            "xy1c21.5null",
            "n0,n1,n2,n3,n4",
            "3",
            "7",
            "caught true",
            "overflow",
            "1.234.567,89",
            "19800000",
            "Dalvik",
        ],
        "{mode}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(7), "{mode}");
}

/// Prints a checksum of the bits of many results, so that a single wrong one shows.
const MATH: &str = r#"
import java.util.Random;

public class MathSum {
  static long sum;

  static void add(double x) { sum = sum * 31 + Double.doubleToLongBits(x); }

  static double number(Random r) {
    switch (r.nextInt(6)) {
      case 0: return Double.longBitsToDouble(r.nextLong());
      case 1: return r.nextInt(20) - 10;
      case 2: return r.nextGaussian() * Math.pow(10, r.nextInt(40) - 20);
      case 3: return Double.MIN_VALUE * r.nextInt(100);
      case 4: return r.nextBoolean() ? 0.0 : r.nextBoolean() ? -0.0 : Double.NEGATIVE_INFINITY;
      default: return (r.nextDouble() - 0.5) * 8;
    }
  }

  public static void main(String[] args) {
    Random r = new Random(42);
    for (int i = 0; i < 200000; i++) {
      double x = number(r), y = number(r);
      switch (i % 10) {
        case 0: add(StrictMath.pow(x, y)); break;
        case 1: add(StrictMath.hypot(x, y)); break;
        case 2: add(StrictMath.cbrt(x)); break;
        case 3: add(StrictMath.sin(x)); break;
        case 4: add(StrictMath.atan2(x, y)); break;
        case 5: add(StrictMath.exp(x)); break;
        case 6: add(StrictMath.log(x)); break;
        case 7: add(StrictMath.tan(x)); break;
        case 8: add(StrictMath.IEEEremainder(x, y)); break;
        default: add(StrictMath.pow(Math.abs(x), y)); break;
      }
      if (i % 20000 == 19999) { System.out.println(i + " " + Long.toHexString(sum)); }
    }
  }
}
"#;

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn strict_math_has_the_results_of_a_jdk() {
    check_math(&lab());
}

/// On 32-bit ARM each of these passes floating point from ART's code to C and back.
#[test]
#[ignore = "needs the labs: cargo xtask lab build --isa arm64; cargo xtask lab build --isa arm"]
fn strict_math_on_arm_has_the_results_of_a_jdk() {
    for lab in arm_labs() {
        check_math(&lab);
    }
}

fn check_math(lab: &Lab) {
    let dir = tempfile::tempdir().unwrap();
    let jar = compile(lab, dir.path(), "MathSum", MATH);
    let ours = output(lab.dalvikvm_command().arg("-cp").arg(&jar).arg("MathSum"));
    let jdk = output(
        Command::new("java")
            .arg("-cp")
            .arg(dir.path().join("classes"))
            .arg("MathSum"),
    );
    assert_eq!(ours, jdk);
    assert_eq!(ours.lines().count(), 10);
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn a_boot_image_with_one_more_jar() {
    let lab = lab();
    let dir = tempfile::tempdir().unwrap();
    let source = "public class InImage { public static void main(String[] a) {\
                    System.out.println(InImage.class.getClassLoader().getClass().getName()); } }";
    let jar = compile(&lab, dir.path(), "InImage", source);
    let mut jars = lab.boot_class_path();
    jars.push(BootJar::new(&jar));
    let spec = BootImageSpec {
        jars,
        filter: "quicken".into(),
        image: dir.path().join("image/test.art"),
        options: Vec::new(),
    };
    let image = lab.build_boot_image(&spec).unwrap();
    assert!(dir.path().join("image/x86_64/test.art").exists());
    // Without a class path, the class can only come from the boot class path; a runtime that cannot use the image logs
    // an error.
    let mut command = lab.dalvikvm_command_with(&image);
    command.env("ANDROID_LOG_TAGS", "*:w").arg("InImage");
    let result = command.output().unwrap();
    let errors = String::from_utf8_lossy(&result.stderr);
    assert_eq!(
        String::from_utf8_lossy(&result.stdout),
        "java.lang.BootClassLoader\n",
        "{errors}"
    );
    assert!(!errors.contains("Could not create image space"), "{errors}");
}

#[test]
#[ignore = "needs the lab: cargo xtask lab build"]
fn a_compile_error_of_java_is_shown() {
    let lab = lab();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("Bad.java");
    std::fs::write(&file, "class Bad { int x = \"text\"; }").unwrap();
    let library = JavaLibrary {
        sources: vec![file],
        ..JavaLibrary::default()
    };
    let jar = dir.path().join("bad.jar");
    let message = lab.compile_java(&library, &jar).unwrap_err().to_string();
    assert!(
        message.contains("Bad.java:1: error: incompatible types"),
        "{message}"
    );
    assert!(!jar.exists());
}

/// Rust's compiler_builtins also defines libm's functions, with different last bits; see `art-hooks/libm-names.txt`.
#[test]
#[ignore = "needs finished builds"]
fn the_patched_libart_takes_its_mathematics_from_libm() {
    for isa in Isa::ALL {
        let lab = Lab::open(Release::Android10, isa, Variant::Hindsight).unwrap();
        let libart = lab.root().join(isa.library_dir()).join("libart.so");
        let symbols = output(
            Command::new("llvm-nm-14")
                .args(["--dynamic", "--undefined-only", "--just-symbol-name"])
                .arg(libart),
        );
        for name in ["cbrt", "fmod", "fmodf", "sin"] {
            let needed = symbols.lines().map(|line| line.split('@').next());
            assert!(
                needed.flatten().any(|symbol| symbol.trim() == name),
                "{}: {name} is not asked for: {symbols}",
                isa.name()
            );
        }
    }
}
