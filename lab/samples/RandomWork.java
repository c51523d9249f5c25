// SPDX-License-Identifier: Apache-2.0

import dalvik.system.PathClassLoader;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.locks.LockSupport;
import java.util.function.LongUnaryOperator;

/**
 * A tree of calls that computes, waits and allocates at random: {@code RandomWork KIND SEED}. Calls last from some
 * microseconds to hundreds of milliseconds.
 */
public final class RandomWork {
  private static final int BRANCHES = 6;
  /** The longest time of a leaf, ms. */
  private static final int LONGEST_MS = 24;

  private final Random random;
  private final String kind;
  private final Object monitor = new Object();
  private long loopsPerMs = 1000;
  private int leaves;
  private int most;
  private Object kept;
  /** Results of loops, or a compiler would remove them. */
  private long results;

  private RandomWork(String kind, long seed) {
    this.kind = kind;
    random = new Random(seed);
  }

  public static void main(String[] arguments) {
    RandomWork work = new RandomWork(arguments[0], Long.parseLong(arguments[1]));
    work.measure();
    Thread other = null;
    if (work.kind.equals("waiting")) {
      other = new Thread(work::holdTheLock, "holder");
      other.setDaemon(true);
      other.start();
    }
    boolean deep = work.kind.equals("deep");
    work.most = deep ? 30 : 150;
    while (work.leaves < work.most) {
      work.first(deep ? 300 : 5);
    }
    System.out.println("done " + work.results);
  }

  /** Measures how fast the loop is, after it was compiled if it ever is. */
  private void measure() {
    for (int i = 0; i < 30; i++) {
      long start = System.nanoTime();
      results += loop(loopsPerMs);
      long took = System.nanoTime() - start;
      loopsPerMs = Math.max(100, loopsPerMs * 1_000_000 / Math.max(took, 1000));
    }
  }

  private void holdTheLock() {
    Random mine = new Random(7);
    while (true) {
      synchronized (monitor) {
        sleep(mine.nextInt(LONGEST_MS));
      }
      sleep(mine.nextInt(5));
    }
  }

  private void first(int depth) {
    choose(depth - 1);
  }

  private void second(int depth) {
    results += loop(loopsPerMs / 50);
    choose(depth - 1);
  }

  private void third(int depth) {
    choose(depth - 2);
    choose(depth - 1);
  }

  private void fourth(int depth) {
    try {
      choose(depth - 1);
      throw new IllegalStateException("expected");
    } catch (IllegalStateException e) {
      choose(depth - 3);
    }
  }

  private void choose(int depth) {
    if (depth <= 0 || leaves >= most) {
      leaf();
      return;
    }
    if (kind.equals("deep")) {
      if (depth % 2 == 0) {
        first(depth);
      } else {
        second(depth);
      }
      return;
    }
    switch (random.nextInt(BRANCHES)) {
      case 0:
      case 1:
        first(depth);
        break;
      case 2:
      case 3:
        second(depth);
        break;
      case 4:
        third(depth);
        break;
      default:
        fourth(depth);
    }
  }

  private void leaf() {
    leaves++;
    int ms = random.nextInt(LONGEST_MS);
    int what = random.nextInt(4);
    switch (kind) {
      case "changing":
        change(ms);
        break;
      case "unloading":
        useAndUnload(ms);
        break;
      case "computing":
        compute(ms);
        break;
      case "waiting":
        block(what, ms);
        break;
      case "allocating":
        allocate(ms);
        break;
      default:
        if (what == 0) {
          allocate(ms);
        } else if (what == 1) {
          compute(ms);
        } else {
          block(random.nextInt(3), ms);
        }
    }
  }

  private void block(int what, int ms) {
    switch (what) {
      case 0:
        sleep(ms);
        break;
      case 1:
        LockSupport.parkNanos(ms * 1_000_000L);
        break;
      case 2:
        waitOn(new Object(), ms);
        break;
      default:
        takeTheLock();
    }
  }

  private void takeTheLock() {
    synchronized (monitor) {
      results += loop(loopsPerMs / 10);
    }
  }

  private static void waitOn(Object object, int ms) {
    synchronized (object) {
      try {
        object.wait(ms + 1);
      } catch (InterruptedException e) {
        throw new AssertionError(e);
      }
    }
  }

  private static void sleep(int ms) {
    try {
      Thread.sleep(ms);
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  /** Uses classes of which a new subclass appears now and then: compiled code that relied on there being none is left. */
  private void change(int ms) {
    if (leaves % 25 == 24) {
      shape = newShape(leaves / 25);
    }
    long end = System.nanoTime() + ms * 1_000_000L;
    while (System.nanoTime() < end) {
      results += through(shape, 20);
    }
    if (what(ms) == 0) {
      sleep(1);
    }
  }

  private static int what(int ms) {
    return ms % 3;
  }

  private long through(Shape shape, int depth) {
    return depth == 0 ? shape.area(this) : through(shape, depth - 1) + 1;
  }

  private static Shape newShape(int number) {
    switch (number) {
      case 1:
        return new Circle();
      case 2:
        return new Square();
      default:
        return new Shape();
    }
  }

  /**
   * Runs code of a class loader that is unloaded later. The memory of its methods, and of the code that the JIT compiles for
   * them, is used again for another loader's. Until then the code of many loaders fills the JIT's memory.
   */
  private void useAndUnload(int ms) {
    LongUnaryOperator visitor = fromNewLoader();
    loaded.add(visitor);
    results += visitor.applyAsLong(ms);
    if (loaded.size() == 30) {
      loaded.clear();
      Runtime.getRuntime().gc();
    }
  }

  /** What is in use of class loaders. */
  private final List<Object> loaded = new ArrayList<>();

  private LongUnaryOperator fromNewLoader() {
    try {
      ClassLoader loader = new PathClassLoader(
          System.getProperty("java.class.path"), ClassLoader.getSystemClassLoader().getParent());
      // Not always the same one first: methods at the same address differ.
      Class<?> other = loader.loadClass((leaves % 2 == 0 ? Left.class : Right.class).getName());
      other.getDeclaredConstructor().newInstance();
      Class<?> visitor = loader.loadClass(Visitor.class.getName());
      return (LongUnaryOperator) visitor.getDeclaredConstructor().newInstance();
    } catch (ReflectiveOperationException e) {
      throw new AssertionError(e);
    }
  }

  /** Its code is unloaded. */
  public static final class Visitor implements LongUnaryOperator {
    private Object kept;

    public Visitor() {}

    @Override
    public long applyAsLong(long ms) {
      long end = System.nanoTime() + ms * 1_000_000L;
      long result = 0;
      while (System.nanoTime() < end) {
        result += forth(12);
      }
      sleep(1);
      return result;
    }

    private long forth(int depth) {
      return depth == 0 ? end() : back(depth - 1) + 1;
    }

    private long back(int depth) {
      return depth == 0 ? end() : forth(depth - 1) * 3;
    }

    private long end() {
      kept = new int[64];
      return loop(50);
    }
  }

  /** Takes place before the methods of {@link Visitor}. */
  public static final class Left {
    public Left() {
      first();
    }

    private void first() {}
  }

  /** Takes more place. */
  public static final class Right {
    public Right() {
      first();
    }

    private void first() {
      second();
    }

    private void second() {
      third();
    }

    private void third() {}
  }

  private Shape shape = new Shape();

  static class Shape {
    long area(RandomWork work) {
      work.kept = new int[64];
      return loop(50);
    }
  }

  static final class Circle extends Shape {
    @Override
    long area(RandomWork work) {
      try {
        return super.area(work) / (work.leaves % 2);
      } catch (ArithmeticException e) {
        return 1;
      }
    }
  }

  static final class Square extends Shape {
    @Override
    long area(RandomWork work) {
      return super.area(work) + 1;
    }
  }

  /** A loop without calls. */
  private void compute(int ms) {
    results += loop(loopsPerMs * ms);
  }

  private static long loop(long loops) {
    long x = loops;
    for (long i = 0; i < loops; i++) {
      x = x * 31 + i;
    }
    return x;
  }

  private void allocate(int ms) {
    long end = System.nanoTime() + ms * 1_000_000L;
    while (System.nanoTime() < end) {
      for (int i = 0; i < 100; i++) {
        kept = new int[64];
      }
    }
  }
}
