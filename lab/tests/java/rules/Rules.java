// SPDX-License-Identifier: Apache-2.0

import dalvik.system.PathClassLoader;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.ref.WeakReference;
import java.lang.reflect.Method;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;

/**
 * Calls the methods that a rules file names, a known number of times. Takes commands from standard input, one a line, and
 * answers each with one line: {@code work THREADS ITERATIONS} runs so many threads to their ends, {@code spin THREADS}
 * starts threads that go on until {@code stop}; the answers are the number of iterations. {@code churn LOADERS} calls
 * Late.count() ten times in each of so many class loaders, which it drops.
 */
public final class Rules {
    static volatile boolean ending;

    private Rules() {}

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        List<Worker> spinning = new ArrayList<>();
        System.out.println("ready");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] command = line.split(" ");
            switch (command[0]) {
                case "work":
                    System.out.println(join(start(Integer.parseInt(command[1]), Long.parseLong(command[2]))));
                    break;
                case "spin":
                    ending = false;
                    spinning = start(Integer.parseInt(command[1]), Long.MAX_VALUE);
                    System.out.println(spinning.size());
                    break;
                case "load":
                    // By reflection, so that not even a verifier knows the class before.
                    Class<?> late = Class.forName("Rules$Lazy");
                    System.out.println(late.getDeclaredMethod("run", Object.class).invoke(null, command));
                    break;
                case "churn":
                    System.out.println(churn(Integer.parseInt(command[1])));
                    break;
                case "cost":
                    System.out.println(cost(Integer.parseInt(command[1])));
                    break;
                default: // stop
                    ending = true;
                    System.out.println(join(spinning));
            }
        }
    }

    /**
     * Calls Late.count() in so many class loaders, one after the other; those that are used no more are unloaded now and
     * then. Returns the number of loaders that were seen to be unloaded.
     */
    private static int churn(int loaders) throws Exception {
        List<WeakReference<ClassLoader>> dropped = new ArrayList<>();
        for (int i = 0; i < loaders; i++) {
            dropped.add(useLoader());
            if (i % 4 == 3) {
                Runtime.getRuntime().gc();
            }
        }
        while (isAlive(dropped.get(0))) {
            Runtime.getRuntime().gc();
        }
        int unloaded = 0;
        for (WeakReference<ClassLoader> loader : dropped) {
            unloaded += isAlive(loader) ? 0 : 1;
        }
        return unloaded;
    }

    /** As useLoader(), a method of its own, so that no register of the caller keeps the loader alive. */
    private static boolean isAlive(WeakReference<ClassLoader> loader) {
        return loader.get() != null;
    }

    private static WeakReference<ClassLoader> useLoader() throws Exception {
        ClassLoader parent = ClassLoader.getSystemClassLoader().getParent();
        ClassLoader loader = new PathClassLoader(System.getProperty("java.class.path"), parent);
        Class<?> lazy = loader.loadClass("Rules$Lazy");
        Method run = lazy.getDeclaredMethod("run", Object.class);
        run.setAccessible(true);
        for (int i = 0; i < 10; i++) {
            run.invoke(null, loader);
        }
        return new WeakReference<>(loader);
    }

    private static List<Worker> start(int count, long iterations) {
        List<Worker> workers = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Worker worker = new Worker(iterations);
            workers.add(worker);
            worker.start();
        }
        return workers;
    }

    private static long join(List<Worker> workers) throws InterruptedException {
        long done = 0;
        for (Worker worker : workers) {
            worker.join();
            done += worker.iterations;
        }
        return done;
    }

    /** Nanoseconds that a call of {@link Queue#isDone} takes, with the loop around it. */
    private static double cost(int calls) {
        Queue queue = new Queue();
        int sum = 0;
        long start = System.nanoTime();
        for (int i = 0; i < calls; i++) {
            sum += queue.isDone() ? 1 : 0;
        }
        long end = System.nanoTime();
        return (double) (end - start) / (calls + sum);
    }

    /** Compilers may inline Late.count() here. */
    static final class Lazy {
        static int run(Object of) {
            return Late.count(of) + 1;
        }
    }

    /** Is loaded when it is first used. */
    static final class Late {
        static int counted;

        static int count(Object of) {
            counted++;
            return of.hashCode() == 0 ? 1 : 2;
        }
    }

    /** A queue with a bug: bad items throw. */
    static final class Queue {
        static final Object BAD = new Object();

        private Object last;
        private boolean done;
        static long counted;

        /** Calls itself until the depth is 0. */
        int put(int depth, Object item) {
            last = item;
            if (depth == 0) {
                if (item == BAD) {
                    throw new IllegalStateException();
                }
                return 0;
            }
            return put(depth - 1, item) + 1;
        }

        /** So small that compilers inline it. */
        boolean isDone() {
            return done;
        }

        /** A method into which isDone() may be inlined, and which may be inlined itself. */
        boolean isOpen() {
            return !isDone();
        }

        void finish() {
            done = true;
        }

        static int count(long weight, Object item) {
            counted += weight;
            return item.hashCode();
        }
    }

    /** In each iteration: 4 calls of put(), 2 of isDone(), 1 of count(), 1 of ArrayDeque.addLast(). */
    static final class Worker extends Thread {
        private static final Object[] ITEMS = {new Object(), "an item", new int[1]};

        private final long limit;
        long iterations;
        private long sum;

        Worker(long limit) {
            this.limit = limit;
        }

        @Override
        public void run() {
            Queue queue = new Queue();
            ArrayDeque<Object> deque = new ArrayDeque<>();
            while (iterations != limit && !(ending && limit == Long.MAX_VALUE)) {
                iterate(queue, deque, iterations);
                iterations++;
            }
            queue.finish();
            Queue locked = new Queue();
            synchronized (locked) {
                locked.finish();
            }
        }

        private void iterate(Queue queue, ArrayDeque<Object> deque, long i) {
            Object item = i % 3 == 0 ? Queue.BAD : ITEMS[(int) (i % ITEMS.length)];
            try {
                sum += queue.put(3, item);
            } catch (IllegalStateException e) {
                sum--;
            }
            if (queue.isDone()) {
                sum++;
            }
            if (queue.isOpen()) {
                sum += Queue.count(i, item);
            }
            deque.addLast(item);
            deque.pollFirst();
        }
    }
}
