// SPDX-License-Identifier: Apache-2.0
package dev.hindsight.lab.dex;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Enumeration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import org.objectweb.asm.tree.ClassNode;

/**
 * Makes a dex jar of class files.
 *
 * <pre>
 * DexJar --output OUT.jar [--classes DIR|JAR]… [--resources DIR|JAR]… [--only LIST] [--core-library]
 *        [--min-api N]
 * </pre>
 *
 * {@code --only} takes only the classes whose source file the list names (one path a line): libcore is
 * compiled in one run of javac, and becomes two jars. The output is written whole or not at all.
 */
public final class DexJar {
  private DexJar() {}

  public static void main(String[] args) throws IOException {
    Path output = null;
    Path only = null;
    List<Path> classes = new ArrayList<>();
    List<Path> resources = new ArrayList<>();
    boolean coreLibrary = false;
    int minApi = 26;
    for (int i = 0; i < args.length; i++) {
      switch (args[i]) {
        case "--output":
          output = Paths.get(args[++i]);
          break;
        case "--classes":
          classes.add(Paths.get(args[++i]));
          break;
        case "--resources":
          resources.add(Paths.get(args[++i]));
          break;
        case "--only":
          only = Paths.get(args[++i]);
          break;
        case "--core-library":
          coreLibrary = true;
          break;
        case "--min-api":
          minApi = Integer.parseInt(args[++i]);
          break;
        default:
          throw new IllegalArgumentException("DexJar: unknown argument " + args[i]);
      }
    }
    if (output == null || classes.isEmpty()) {
      throw new IllegalArgumentException("DexJar: --output and --classes are needed");
    }
    ClassPool pool = new ClassPool();
    for (Path source : classes) {
      pool.load(source);
    }
    Predicate<String> selection = name -> true;
    if (only != null) {
      Set<String> selected = namesFromSources(pool, only);
      selection = name -> selected.contains(topLevel(name));
    }
    new ClassFileLowering(pool).run();
    new LambdaDesugaring(pool).run();
    Path folder = Files.createTempDirectory(output.toAbsolutePath().getParent(), ".dex");
    Path result = folder.resolveSibling(folder.getFileName() + ".jar");
    try {
      pool.write(folder, selection);
      for (Path source : resources) {
        if (Files.isDirectory(source)) {
          Dex.copyResources(source, folder);
        } else {
          unpackResources(source, folder);
        }
      }
      Dex.compile(folder, result, minApi, coreLibrary, List.of());
      Files.move(result, output, StandardCopyOption.REPLACE_EXISTING);
    } finally {
      Dex.deleteTree(folder);
      Files.deleteIfExists(result);
    }
  }

  private static String topLevel(String name) {
    int dollar = name.indexOf('$', name.lastIndexOf('/') + 2);
    return dollar < 0 ? name : name.substring(0, dollar);
  }

  /** The top-level classes whose package and source file match a path of the list. */
  private static Set<String> namesFromSources(ClassPool pool, Path list) throws IOException {
    Map<String, List<String>> byFile = new HashMap<>();
    for (String line : Files.readAllLines(list, StandardCharsets.UTF_8)) {
      String path = line.trim();
      if (!path.isEmpty()) {
        byFile.computeIfAbsent(Paths.get(path).getFileName().toString(), k -> new ArrayList<>()).add(path);
      }
    }
    Set<String> names = new HashSet<>();
    for (ClassNode node : pool.all()) {
      int slash = node.name.lastIndexOf('/');
      String source = node.name.substring(0, slash + 1) + node.sourceFile;
      for (String path : byFile.getOrDefault(String.valueOf(node.sourceFile), List.of())) {
        if (path.endsWith("/" + source)) {
          names.add(topLevel(node.name));
        }
      }
    }
    return names;
  }

  private static void unpackResources(Path jar, Path folder) throws IOException {
    try (ZipFile zip = new ZipFile(jar.toFile())) {
      for (Enumeration<? extends ZipEntry> e = zip.entries(); e.hasMoreElements(); ) {
        ZipEntry entry = e.nextElement();
        String name = entry.getName();
        if (entry.isDirectory() || name.endsWith(".class") || name.startsWith("META-INF/")) {
          continue;
        }
        Path file = folder.resolve(name).normalize();
        if (!file.startsWith(folder)) {
          throw new IOException(jar + ": entry " + name + " leads out of the jar");
        }
        Files.createDirectories(file.getParent());
        Files.copy(zip.getInputStream(entry), file, StandardCopyOption.REPLACE_EXISTING);
      }
    }
  }
}
