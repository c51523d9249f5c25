// SPDX-License-Identifier: Apache-2.0
package dev.hindsight.lab.dex;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import org.objectweb.asm.ClassReader;

/**
 * Takes d8's command line, as ART's run-tests use it: class files become a jar with a dex file, and
 * dex files are merged.
 */
public final class D8 {
  /** The newest API level that dx knows. */
  private static final int MAX_API = 28;

  private D8() {}

  public static void main(String[] args) throws Exception {
    int api = 26;
    Path output = Paths.get(".");
    boolean desugar = true;
    List<String> inputs = new ArrayList<>();
    List<String> dxOptions = new ArrayList<>();
    for (int i = 0; i < args.length; i++) {
      switch (args[i]) {
        case "--min-api":
          api = Integer.parseInt(args[++i]);
          break;
        case "--output":
          output = Paths.get(args[++i]);
          break;
        case "--classpath":
        case "--lib":
          i++;
          break;
        case "--no-desugaring":
          desugar = false;
          break;
        default:
          if (args[i].startsWith("--dx=")) {
            // Not d8's: handed on to dx.
            dxOptions.add(args[i].substring("--dx=".length()));
          } else if (!args[i].startsWith("--")) {
            inputs.add(args[i]);
          }
      }
    }
    if (inputs.isEmpty()) {
      throw new IllegalArgumentException("d8: no inputs");
    }
    if (inputs.get(0).endsWith(".dex")) {
      List<String> arguments = new ArrayList<>();
      arguments.add(output.resolve("classes.dex").toString());
      arguments.addAll(inputs);
      com.android.dx.merge.DexMerger.main(arguments.toArray(new String[0]));
      return;
    }
    Path folder = Files.createTempDirectory("d8");
    try {
      if (desugar) {
        ClassPool pool = new ClassPool();
        for (String input : inputs) {
          pool.add(Files.readAllBytes(Paths.get(input)));
        }
        new ClassFileLowering(pool).run();
        new LambdaDesugaring(pool).run();
        pool.write(folder, name -> true);
      } else {
        // As they are: some tests want class files that no compiler would write.
        for (String input : inputs) {
          byte[] classFile = Files.readAllBytes(Paths.get(input));
          Path copy = folder.resolve(new ClassReader(classFile).getClassName() + ".class");
          Files.createDirectories(copy.getParent());
          Files.write(copy, classFile);
        }
      }
      Dex.compile(folder, output, Math.min(api, MAX_API), true, dxOptions);
    } finally {
      Dex.deleteTree(folder);
    }
  }
}
