// SPDX-License-Identifier: Apache-2.0
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.tools.JavaCompiler;
import javax.tools.ToolProvider;
import org.jf.dexlib2.DexFileFactory;
import org.jf.dexlib2.Opcodes;
import org.jf.dexlib2.iface.ClassDef;
import org.jf.dexlib2.iface.DexFile;
import org.jf.dexlib2.immutable.ImmutableDexFile;
import org.jf.dexlib2.writer.pool.DexPool;

/**
 * The Java tools that ART's run-tests are built with (javac, a stand-in for d8, smali, jasmin), kept warm in one JVM.
 *
 * <p>A run-test calls three to ten of them, each of which would start a JVM of its own. One request is served at a time,
 * since some of the tools keep static state; the runner starts one server per worker. The server ends when its standard input is closed, that is with the runner.
 *
 * <p>Request: the tool's name, the caller's working directory and the arguments. Response: standard output, standard
 * error, exit status. Strings are UTF-8 with a 32-bit length, numbers are big-endian.
 */
public final class ToolServer {
  /** Thrown in place of System.exit by a tool. */
  private static final class Exit extends SecurityException {
    final int status;

    Exit(int status) {
      super("exit " + status);
      this.status = status;
    }
  }

  private static final JavaCompiler JAVAC = ToolProvider.getSystemJavaCompiler();
  private static boolean inTool;

  /** What the tool that is running has printed on its standard error. */
  private static ByteArrayOutputStream currentErr;

  private ToolServer() {}

  @SuppressWarnings("removal")
  public static void main(String[] args) throws Exception {
    if (JAVAC == null) {
      System.err.println("ToolServer: this Java has no compiler: install a JDK (openjdk-17-jdk-headless)");
      System.exit(2);
    }
    System.setSecurityManager(
        new SecurityManager() {
          @Override
          public void checkPermission(java.security.Permission p) {}

          @Override
          public void checkExit(int status) {
            if (inTool) {
              throw new Exit(status);
            }
          }
        });
    Thread parentWatch =
        new Thread(
            () -> {
              try {
                while (System.in.read() >= 0) {}
              } catch (IOException e) {
                // The same as the end of the stream.
              }
              Runtime.getRuntime().halt(0);
            });
    parentWatch.setDaemon(true);
    parentWatch.start();
    PrintStream out = System.out;
    try (ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
      server.bind(UnixDomainSocketAddress.of(args[0]));
      out.println("ready");
      out.flush();
      while (true) {
        try (SocketChannel c = server.accept()) {
          serve(
              new DataInputStream(new BufferedInputStream(Channels.newInputStream(c))),
              new DataOutputStream(new BufferedOutputStream(Channels.newOutputStream(c))));
        } catch (IOException e) {
          // The caller was killed (time limit): nothing to answer.
        }
      }
    }
  }

  private static String string(DataInputStream in) throws IOException {
    int n = in.readInt();
    if (n < 0 || n > 1 << 24) {
      throw new IOException("length " + n);
    }
    return new String(in.readNBytes(n), StandardCharsets.UTF_8);
  }

  private static void bytes(DataOutputStream o, ByteArrayOutputStream b) throws IOException {
    o.writeInt(b.size());
    b.writeTo(o);
  }

  private static void serve(DataInputStream in, DataOutputStream o) throws IOException {
    String tool = string(in);
    Path cwd = Paths.get(string(in));
    int n = in.readInt();
    List<String> args = new ArrayList<>();
    for (int i = 0; i < n; i++) {
      args.add(string(in));
    }
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    ByteArrayOutputStream err = new ByteArrayOutputStream();
    currentErr = err;
    PrintStream realOut = System.out;
    PrintStream realErr = System.err;
    PrintStream toolOut = new PrintStream(out, true);
    PrintStream toolErr = new PrintStream(err, true);
    System.setOut(toolOut);
    System.setErr(toolErr);
    inTool = true;
    int status;
    try {
      status = run(tool, cwd, args);
    } catch (Exit e) {
      status = e.status;
    } catch (Throwable t) {
      t.printStackTrace();
      status = 70;
    } finally {
      inTool = false;
      toolOut.flush();
      toolErr.flush();
      System.setOut(realOut);
      System.setErr(realErr);
    }
    bytes(o, out);
    bytes(o, err);
    o.writeInt(status);
    o.flush();
  }

  private static int run(String tool, Path cwd, List<String> args) throws Throwable {
    switch (tool) {
      case "javac":
        return javac(cwd, args);
      case "d8":
        return d8(cwd, args);
      case "smali":
        return smali(cwd, args);
      case "jasmin":
        return jasmin(cwd, args);
      default:
        System.err.println("ToolServer: no tool '" + tool + "'");
        return 64;
    }
  }

  private static String absolute(Path cwd, String p) {
    return p.isEmpty() ? p : cwd.resolve(p).toString();
  }

  private static String absoluteList(Path cwd, String list) {
    List<String> r = new ArrayList<>();
    for (String p : list.split(File.pathSeparator, -1)) {
      // An empty element of a class path is the working directory.
      r.add(p.isEmpty() ? cwd.toString() : absolute(cwd, p));
    }
    return String.join(File.pathSeparator, r);
  }

  private static final Set<String> PATH_OPTIONS = Set.of("-d", "-s", "-h");
  private static final Set<String> LIST_OPTIONS =
      Set.of("-cp", "-classpath", "--class-path", "-bootclasspath", "-sourcepath", "--source-path", "-processorpath");

  private static int javac(Path cwd, List<String> args) {
    List<String> a = new ArrayList<>();
    boolean classPath = false;
    for (int i = 0; i < args.size(); i++) {
      String x = args.get(i);
      a.add(x);
      boolean more = i + 1 < args.size();
      if (PATH_OPTIONS.contains(x) && more) {
        a.add(absolute(cwd, args.get(++i)));
      } else if (LIST_OPTIONS.contains(x) && more) {
        classPath |= x.equals("-cp") || x.equals("-classpath") || x.equals("--class-path");
        a.add(absoluteList(cwd, args.get(++i)));
      } else if ((x.equals("-source") || x.equals("-target") || x.equals("--release") || x.equals("-encoding")) && more) {
        a.add(args.get(++i));
      } else if (!x.startsWith("-")) {
        a.set(a.size() - 1, absolute(cwd, x));
      }
    }
    if (!classPath) {
      a.add(0, cwd.toString());
      a.add(0, "-classpath");
    }
    return JAVAC.run(null, System.out, System.err, a.toArray(new String[0]));
  }

  private static Object call(String cls, String method, Class<?>[] types, Object self, Object... args) throws Throwable {
    Method m = Class.forName(cls).getMethod(method, types);
    try {
      return m.invoke(self, args);
    } catch (InvocationTargetException e) {
      throw e.getCause();
    }
  }

  private static void main(String cls, List<String> args) throws Throwable {
    call(cls, "main", new Class<?>[] {String[].class}, null, (Object) args.toArray(new String[0]));
  }

  /** The lab's stand-in for d8, or dexlib2 where dex files are to be merged. */
  private static int d8(Path cwd, List<String> args) throws Throwable {
    List<String> a = new ArrayList<>();
    List<Path> dexFiles = new ArrayList<>();
    Path output = cwd;
    for (int i = 0; i < args.size(); i++) {
      String x = args.get(i);
      boolean more = i + 1 < args.size();
      a.add(x);
      if (x.equals("--output") && more) {
        output = cwd.resolve(args.get(++i));
        a.add(output.toString());
      } else if ((x.equals("--classpath") || x.equals("--lib") || x.equals("--min-api")) && more) {
        a.add(args.get(++i));
      } else if (!x.startsWith("--")) {
        a.set(a.size() - 1, absolute(cwd, x));
        if (x.endsWith(".dex")) {
          dexFiles.add(cwd.resolve(x));
        }
      }
    }
    if (!dexFiles.isEmpty()) {
      merge(dexFiles, output.resolve("classes.dex"));
      return 0;
    }
    try {
      main("dev.hindsight.lab.dex.D8", a);
      return 0;
    } finally {
      if (currentErr.toString().contains("references to fit in one dex file")) {
        // In d8's words, which a test looks for.
        System.err.println("Error: Cannot fit requested classes in a single dex file");
      }
    }
  }

  /**
   * Merges dex files; of classes of the same name the first counts.
   *
   * <p>dx's own merger leaves the map in the middle of the file, which ART's hiddenapi refuses.
   */
  private static void merge(List<Path> inputs, Path output) throws IOException {
    Map<String, ClassDef> classes = new LinkedHashMap<>();
    Opcodes opcodes = null;
    for (Path p : inputs) {
      DexFile dex = DexFileFactory.loadDexFile(p.toFile(), null);
      if (opcodes == null || dex.getOpcodes().api > opcodes.api) {
        opcodes = dex.getOpcodes();
      }
      for (ClassDef c : dex.getClasses()) {
        classes.putIfAbsent(c.getType(), c);
      }
    }
    DexPool.writeTo(output.toString(), new ImmutableDexFile(opcodes, classes.values()));
  }

  private static int smali(Path cwd, List<String> args) throws Throwable {
    args.removeIf(x -> x.startsWith("-J")); // options of the JVM
    List<String> a = new ArrayList<>();
    for (int i = 0; i < args.size(); i++) {
      String x = args.get(i);
      if (x.equals("--output") || x.equals("-o")) {
        a.add(x);
        a.add(absolute(cwd, args.get(++i)));
      } else if (x.equals("--api") || x.equals("-a")) {
        a.add(x);
        a.add(args.get(++i));
      } else if (i == 0 || x.startsWith("-")) {
        a.add(x);
      } else {
        a.add(absolute(cwd, x));
      }
    }
    main("org.jf.smali.Main", a);
    return 0;
  }

  private static int jasmin(Path cwd, List<String> args) throws Throwable {
    List<String> a = new ArrayList<>();
    for (String x : args) {
      a.add(x.startsWith("-") ? x : absolute(cwd, x));
    }
    main("jasmin.Main", a);
    return 0;
  }
}
