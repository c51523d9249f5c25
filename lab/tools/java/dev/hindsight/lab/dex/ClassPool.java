// SPDX-License-Identifier: Apache-2.0
package dev.hindsight.lab.dex;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.tree.ClassNode;

/** The classes of one run, by internal name. Sorted, so that the output doesn't depend on the disk's order. */
final class ClassPool {
  private final Map<String, ClassNode> classes = new TreeMap<>();

  /** Adds the class files of a folder or jar. */
  void load(Path source) throws IOException {
    if (Files.isDirectory(source)) {
      List<Path> files = new ArrayList<>();
      try (Stream<Path> walk = Files.walk(source)) {
        walk.filter(path -> isClass(source.relativize(path).toString())).forEach(files::add);
      }
      for (Path file : files) {
        add(Files.readAllBytes(file));
      }
      return;
    }
    try (ZipFile zip = new ZipFile(source.toFile())) {
      for (ZipEntry entry : java.util.Collections.list(zip.entries())) {
        if (isClass(entry.getName())) {
          try (InputStream in = zip.getInputStream(entry)) {
            add(in.readAllBytes());
          }
        }
      }
    }
  }

  /** Multi-release variants and module descriptors mean nothing to ART 10. */
  private static boolean isClass(String name) {
    return name.endsWith(".class")
        && !name.startsWith("META-INF/versions/")
        && !name.endsWith("module-info.class");
  }

  void add(byte[] classFile) {
    ClassNode node = new ClassNode();
    new ClassReader(classFile).accept(node, 0);
    classes.put(node.name, node);
  }

  ClassNode get(String name) {
    return classes.get(name);
  }

  /** A copy, so that classes can be added on the way. */
  Collection<ClassNode> all() {
    return new ArrayList<>(classes.values());
  }

  int size() {
    return classes.size();
  }

  /** Writes those of the classes that {@code selection} takes to a folder. */
  void write(Path folder, java.util.function.Predicate<String> selection) throws IOException {
    for (ClassNode node : classes.values()) {
      if (!selection.test(node.name)) {
        continue;
      }
      ClassWriter writer = new ClassWriter(0);
      node.accept(writer);
      Path file = folder.resolve(node.name + ".class");
      Files.createDirectories(file.getParent());
      Files.write(file, writer.toByteArray());
    }
  }
}
