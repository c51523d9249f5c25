// SPDX-License-Identifier: Apache-2.0
package dev.hindsight.lab.dex;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/** Runs dx in this process. */
final class Dex {
  private Dex() {}

  /** Compiles the class files of a folder; its other files are kept as resources of the jar. */
  static void compile(
      Path folder, Path output, int minApi, boolean coreLibrary, List<String> moreOptions)
      throws IOException {
    List<String> arguments = new ArrayList<>(moreOptions);
    arguments.add("--min-sdk-version=" + minApi);
    if (coreLibrary) {
      arguments.add("--core-library");
    }
    arguments.add("--output=" + output.toAbsolutePath());
    // dx takes what follows "/./" for the name of the class.
    arguments.add(folder.toAbsolutePath() + "/.");
    // Exits with a status of its own if something is wrong.
    com.android.dx.command.dexer.Main.main(arguments.toArray(new String[0]));
  }

  /** Copies the files below a folder, class files excepted. */
  static void copyResources(Path from, Path to) throws IOException {
    List<Path> files = new ArrayList<>();
    try (Stream<Path> walk = Files.walk(from)) {
      walk.filter(Files::isRegularFile).forEach(files::add);
    }
    for (Path file : files) {
      String name = from.relativize(file).toString();
      if (name.endsWith(".class") || name.endsWith(".java") || name.endsWith(".html")) {
        continue;
      }
      Path copy = to.resolve(name);
      Files.createDirectories(copy.getParent());
      Files.copy(file, copy);
    }
  }

  static void deleteTree(Path folder) throws IOException {
    try (Stream<Path> walk = Files.walk(folder)) {
      for (Path path : (Iterable<Path>) walk.sorted(Comparator.reverseOrder())::iterator) {
        Files.delete(path);
      }
    }
  }
}
