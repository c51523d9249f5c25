// SPDX-License-Identifier: Apache-2.0

import dev.hindsight.Hindsight;

import java.io.File;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Eight threads that do, one after the other, operations that are hard to record, and check each result. The seed
 * determines the operations of each thread; `cargo xtask verify stress` does its part from outside meanwhile.
 *
 * <p>`testing/verify/src/stress/files.rs` lists closed classes, and checks in the traces that their methods call no
 * other class of the program, and that other classes call only the methods listed as open. Keep the lists up to date.
 *
 * <p>Arguments: seed, seconds, folder for files, jar to load again and again, native library, how to end (`join` or `exit`),
 * the variant of ART (`recorded`, or `stock`: skips operations that need Hindsight).
 */
public final class Stress {
    static final int WORKERS = 8;
    private static final int WALKS_A_BEAT = 5;
    static final AtomicBoolean failed = new AtomicBoolean();
    static volatile boolean stop;
    /** Set when the process ends: from then on, Nanoscope's commands have no effect. */
    static volatile boolean ending;
    /** Whether this ART records. */
    static boolean recorded;
    static String folder;
    static String churnJar;

    private Stress() {}

    public static void main(String[] arguments) throws Exception {
        long seed = Long.parseLong(arguments[0]);
        long end = System.nanoTime() + Long.parseLong(arguments[1]) * 1000000000L;
        folder = arguments[2];
        churnJar = arguments[3];
        System.load(arguments[4]);
        boolean exit = arguments[5].equals("exit");
        recorded = arguments[6].equals("recorded");
        Jni.prepare();
        Worker[] workers = new Worker[WORKERS];
        for (int i = 0; i < WORKERS; i++) {
            workers[i] = new Worker(i, seed);
            workers[i].setDaemon(exit);
            workers[i].start();
        }
        while (System.nanoTime() < end && !failed.get()) {
            for (int i = 0; i < WALKS_A_BEAT; i++) {
                Thread.sleep(500 / WALKS_A_BEAT);
                walkStacks(workers);
            }
            beat(workers);
        }
        stop = !exit;
        if (!exit) {
            for (Worker worker : workers) {
                while (worker.isAlive()) {
                    worker.join(500);
                    beat(workers);
                }
            }
            for (Worker worker : workers) {
                System.out.println("worker " + worker.number + ": " + worker.steps + " steps, digest "
                        + Long.toHexString(worker.digest));
            }
        }
        if (failed.get()) {
            System.out.println("failed");
            System.exit(1);
        }
        System.out.println("done");
        System.out.flush();
        ending = true;
        if (exit) {
            System.exit(0);
        }
    }

    /** Walks the stacks of all threads from another thread, in any of their states. */
    private static void walkStacks(Worker[] workers) {
        Map<Thread, StackTraceElement[]> stacks = Thread.getAllStackTraces();
        for (Worker worker : workers) {
            check(stacks.containsKey(worker) || !worker.isAlive(), worker.number + " has no stack");
        }
    }

    /** Tells the watchdog how far each worker is. */
    private static void beat(Worker[] workers) {
        StringBuilder line = new StringBuilder("beat");
        for (Worker worker : workers) {
            line.append(' ').append(worker.steps);
        }
        System.out.println(line);
        System.out.flush();
    }

    static void fail(String where, Throwable error) {
        // After the end of main nobody is interested.
        synchronized (Stress.class) {
            System.out.println("finding: " + where + ": " + error);
            error.printStackTrace(System.out);
            System.out.flush();
        }
        failed.set(true);
    }

    static void check(boolean right, String what) {
        if (!right) {
            throw new AssertionError(what);
        }
    }
}

/** xorshift64*: the same on every platform, and without any call into the core library. */
final class Dice {
    private long state;

    Dice(long seed) {
        state = seed * 0x9E3779B97F4A7C15L + 0x1234567;
        if (state == 0) {
            state = 1;
        }
    }

    int below(int bound) {
        state ^= state >>> 12;
        state ^= state << 25;
        state ^= state >>> 27;
        return (int) (((state * 0x2545F4914F6CDD1DL) >>> 33) % bound);
    }
}

final class Worker extends Thread {
    final int number;
    volatile long steps;
    long digest;
    private final Dice dice;
    private int files;

    Worker(int number, long seed) {
        super("worker " + number);
        this.number = number;
        dice = new Dice(seed * 31 + number);
    }

    @Override
    public void run() {
        try {
            while (!Stress.stop) {
                int kind = dice.below(1000);
                int size = dice.below(256);
                digest = digest * 31 + kind * 257 + step(kind, size);
                steps++;
            }
        } catch (Throwable error) {
            Stress.fail(getName(), error);
        }
    }

    private long step(int kind, int size) throws Exception {
        if (kind < 180) {
            return Chain.run(size);
        } else if (kind < 300) {
            return Recursion.run(size * 2);
        } else if (kind < 480) {
            return Throwing.run(size % 40, size % 7);
        } else if (kind < 490) {
            return Overflow.run(size);
        } else if (kind < 590) {
            return Jni.run(size % 20);
        } else if (kind < 700) {
            return Contended.run(size);
        } else if (kind < 790) {
            return Alloc.run(size);
        } else if (kind < 830) {
            return Mixed.run(size);
        } else if (kind < 850) {
            return loadClasses(size);
        } else if (kind < 890) {
            return startThreads(1 + size % 3, size);
        } else if (kind < 910) {
            Jni.attach(1 + size % 2, size % 16);
            return 0;
        } else if (kind < 960) {
            setName("worker " + number + (size % 2 == 0 ? "" : " again"));
            return getName().length();
        } else if (kind < 966) {
            return nanoscope(size);
        } else if (kind < 970) {
            String path = Stress.recorded ? Hindsight.anomaly("java " + number) : null;
            // A file that cannot be read is found from outside.
            Stress.check(path == null || path.endsWith(".hindsight"), "path " + path);
            return 0;
        } else if (kind < 980) {
            if (Stress.recorded) {
                Hindsight.isTracing();
            }
            Thread.yield();
            return 0;
        } else if (kind < 984) {
            Runtime.getRuntime().gc();
            return 0;
        } else if (kind < 986) {
            return tooMuch();
        } else {
            Thread.sleep(size % 8);
            return 0;
        }
    }

    /** Nanoscope's commands, which don't rename the thread. */
    private long nanoscope(int size) {
        if (!Stress.recorded) {
            return 0;
        }
        String name = getName();
        setName("START_TRACING");
        checkName(name);
        long result = Chain.run(size);
        String file = Stress.folder + "/nanoscope-" + number + "-" + files++ + ".hindsight";
        setName("STOP_TRACING:" + file);
        checkName(name);
        return result;
    }

    private void checkName(String name) {
        String now = getName();
        if (!now.equals(name)) {
            Stress.check(Stress.ending, "renamed to " + now);
            setName(name);
        }
    }

    /** A new class loader, a class hierarchy that changes while it runs, and no reference left at the end. */
    private long loadClasses(int size) throws Exception {
        ClassLoader loader = new dalvik.system.PathClassLoader(Stress.churnJar, Stress.class.getClassLoader());
        Class<?> churn = loader.loadClass("Churn");
        Method run = churn.getDeclaredMethod("run", int.class);
        int result = (Integer) run.invoke(null, 200 + size * 4);
        Stress.check(result == 3 * (200 + size * 4), "Churn.run: " + result);
        return result;
    }

    private long startThreads(int count, int size) throws InterruptedException {
        ShortLived[] threads = new ShortLived[count];
        for (int i = 0; i < count; i++) {
            threads[i] = new ShortLived(size + i);
            threads[i].start();
        }
        for (ShortLived thread : threads) {
            thread.join();
            Stress.check(thread.result == thread.expected(), "short-lived thread: " + thread.result);
        }
        return count;
    }

    private static long tooMuch() {
        try {
            return new long[Integer.MAX_VALUE].length;
        } catch (OutOfMemoryError expected) {
            return 1;
        }
    }
}

final class ShortLived extends Thread implements Thread.UncaughtExceptionHandler {
    private static final long DIED = 77;
    private final int size;
    volatile long result;

    ShortLived(int size) {
        this.size = size;
        setUncaughtExceptionHandler(this);
    }

    private boolean dies() {
        return size % 4 == 0;
    }

    long expected() {
        return dies() ? DIED : Chain.expected(size % 16);
    }

    @Override
    public void run() {
        if (dies()) {
            throw new IllegalStateException("on purpose");
        }
        result = Chain.run(size % 16);
    }

    @Override
    public void uncaughtException(Thread thread, Throwable error) {
        if (error instanceof IllegalStateException) {
            result = DIED;
        } else {
            Stress.fail("a short-lived thread", error);
        }
    }
}

/** Calls of a fixed shape. */
final class Chain {
    private Chain() {}

    static long run(int size) {
        long sum = 0;
        for (int i = 0; i < size; i++) {
            sum += first(i);
        }
        Stress.check(sum == expected(size), "Chain: " + sum);
        return sum;
    }

    static long expected(int size) {
        return size * (size - 1L) / 2 * 3 + 6L * size;
    }

    private static long first(int n) {
        return second(n, 1L) + third(n, 2.0);
    }

    private static long second(int n, long more) {
        return third(n, 2.0f) + more;
    }

    private static long third(int n, double more) {
        return leaf(n) + (long) more;
    }

    private static long third(int n, float more) {
        return leaf(n) + (n & 0) + leaf(0) + leaf(n) + (long) more + 1 - leaf(0);
    }

    private static int leaf(int n) {
        return n;
    }
}

final class Recursion {
    private Recursion() {}

    static long run(int depth) {
        long sum = down(depth) + (long) down(depth, 0.5);
        Stress.check(sum == depth * (depth + 1L) / 2 + depth / 2, "Recursion: " + sum);
        return sum;
    }

    private static long down(int depth) {
        return depth == 0 ? 0 : depth + down(depth - 1);
    }

    private static double down(int depth, double each) {
        return depth == 0 ? 0 : each + down(depth - 1, each);
    }
}

final class Throwing {
    private Throwing() {}

    private static final class Expected extends RuntimeException {
        final int depth;

        Expected(int depth) {
            super(null, null, false, false);
            this.depth = depth;
        }
    }

    static long run(int depth, int catchers) {
        long sum = 0;
        for (int i = 0; i <= catchers; i++) {
            try {
                sum += down(depth, i);
                throw new AssertionError("nothing was thrown");
            } catch (Expected expected) {
                Stress.check(expected.depth == 0, "depth " + expected.depth);
                sum += 1;
            }
        }
        Stress.check(sum == catchers + 1, "Throwing: " + sum);
        return sum;
    }

    private static long down(int depth, int catchAt) {
        if (depth == 0) {
            throw new Expected(0);
        }
        long before = depth;
        try {
            if (depth == catchAt) {
                return again(depth, catchAt);
            }
            return down(depth - 1, catchAt);
        } finally {
            before--;
            Stress.check(before == depth - 1, "finally");
        }
    }

    private static long again(int depth, int catchAt) {
        try {
            return down(depth - 1, -1);
        } catch (Expected expected) {
            throw new Expected(expected.depth);
        }
    }
}

final class Overflow {
    private Overflow() {}

    static long run(int size) {
        try {
            down(size);
            throw new AssertionError("the stack has no end");
        } catch (StackOverflowError expected) {
            return 1;
        }
    }

    private static int down(int n) {
        return n + down(n + 1);
    }
}

/** Java and native code call each other. */
final class Jni {
    private static final AtomicLong attached = new AtomicLong();

    private Jni() {}

    /** Looks up the methods that native code calls; installs a handler of SIGPROF that counts. */
    static native void prepare();

    static native long out(int depth);

    static native void throwAfter(int depth);

    /** Native threads that attach themselves, call {@link #fromNative}, and detach; waits for them. */
    static native void attach(int threads, int size);

    static long run(int depth) {
        long sum = in(depth);
        Stress.check(sum == depth, "Jni: " + sum);
        try {
            throwAfter(depth % 5);
            throw new AssertionError("nothing was thrown");
        } catch (IllegalArgumentException expected) {
            return sum;
        }
    }

    /** Called by {@link #out}. */
    static long in(int depth) {
        return depth == 0 ? 0 : 1 + out(depth - 1);
    }

    /** Called by {@link #throwAfter}. */
    static void deeper(int depth) {
        throwAfter(depth - 1);
    }

    /** Called by threads that native code has attached. */
    static void fromNative(int size) {
        Chain.run(size);
        attached.incrementAndGet();
    }
}

/** Contended monitors. */
final class Contended {
    private static final Object[] LOCKS = new Object[3];
    private static final long[] COUNTS = new long[LOCKS.length];

    static {
        for (int i = 0; i < LOCKS.length; i++) {
            LOCKS[i] = new Object();
        }
    }

    private Contended() {}

    static long run(int size) throws InterruptedException {
        int which = size % LOCKS.length;
        long before;
        long after;
        synchronized (LOCKS[which]) {
            before = COUNTS[which];
            add(which, size);
            if (size % 50 == 0) {
                LOCKS[which].notifyAll();
                LOCKS[which].wait(1);
                return 0;
            }
            after = COUNTS[which];
        }
        Stress.check(after - before == size, "Contended: " + (after - before));
        return size;
    }

    private static void add(int which, int size) {
        for (int i = 0; i < size; i++) {
            one(which);
        }
    }

    private static void one(int which) {
        synchronized (LOCKS[which]) {
            COUNTS[which]++;
        }
    }
}

/** Objects that move and die. */
final class Alloc {
    private final Alloc next;
    private final int[] values;

    private Alloc(Alloc next, int size) {
        this.next = next;
        values = new int[size];
        values[size - 1] = size;
    }

    static long run(int size) {
        Alloc list = null;
        for (int i = 1; i <= size; i++) {
            list = make(list, i);
        }
        long sum = 0;
        for (Alloc at = list; at != null; at = at.next) {
            sum += at.last();
        }
        Stress.check(sum == size * (size + 1L) / 2, "Alloc: " + sum);
        return sum;
    }

    private static Alloc make(Alloc next, int size) {
        return new Alloc(next, size);
    }

    private int last() {
        return values[values.length - 1];
    }
}

/** Proxies, reflection, interfaces with default methods, lambdas. */
final class Mixed {
    interface Adder {
        int add(int a, int b);

        default int addThree(int a, int b, int c) {
            return add(add(a, b), c);
        }
    }

    private Mixed() {}

    static long run(final int size) throws Exception {
        Adder lambda = (a, b) -> a + b + size - size;
        Adder proxy = (Adder) Proxy.newProxyInstance(Mixed.class.getClassLoader(), new Class<?>[] {Adder.class},
                new InvocationHandler() {
                    @Override
                    public Object invoke(Object self, Method method, Object[] arguments) {
                        return (Integer) arguments[0] + (Integer) arguments[1];
                    }
                });
        Method method = Mixed.class.getDeclaredMethod("twice", int.class);
        int sum = lambda.addThree(1, 2, size) + proxy.add(size, 4) + (Integer) method.invoke(null, size);
        Stress.check(sum == 7 + 4 * size, "Mixed: " + sum);
        return sum;
    }

    static int twice(int n) {
        return 2 * n;
    }
}
