// SPDX-License-Identifier: Apache-2.0

import dalvik.system.PathClassLoader;

import java.util.ArrayList;
import java.util.List;
import java.util.function.IntUnaryOperator;

/**
 * Loads one class with many class loaders, and calls its methods. Each loader has memory for methods of its own.
 * Arguments: the number of loaders, and "fill" if the native half shall take all memory below 4 GiB before.
 */
public final class LowMemory {
    private static final List<ClassLoader> loaders = new ArrayList<>();

    private LowMemory() {}

    /** Loaded anew by each loader. */
    public static final class Work implements IntUnaryOperator {
        private int sum;

        @Override
        public int applyAsInt(int n) {
            sum = 0;
            add(n);
            for (int i = 0; i < 3; i++) {
                try {
                    fail(i);
                } catch (IllegalStateException e) {
                    add(1);
                }
            }
            return sum;
        }

        private synchronized void add(int n) {
            sum += n;
        }

        private void fail(int depth) {
            if (depth == 0) {
                throw new IllegalStateException("on purpose");
            }
            fail(depth - 1);
        }
    }

    private static native void fill();

    /** Twice the number, by native code. */
    private static native int twice(int n);

    public static void main(String[] args) throws Exception {
        System.loadLibrary("low_memory");
        if (args.length > 1 && args[1].equals("fill")) {
            fill();
        }
        int count = Integer.parseInt(args[0]);
        long sum = 0;
        for (int i = 0; i < count; i++) {
            sum += twice(load().applyAsInt(i));
        }
        // 3 for the exceptions.
        long expected = (long) count * (count - 1) + 6L * count;
        System.out.println(sum == expected ? "right" : "wrong: " + sum + ", not " + expected);
    }

    private static IntUnaryOperator load() throws Exception {
        ClassLoader loader = new PathClassLoader(System.getProperty("java.class.path"),
                ClassLoader.getSystemClassLoader().getParent());
        loaders.add(loader);
        Class<?> work = loader.loadClass("LowMemory$Work");
        if (work == Work.class) {
            throw new AssertionError("the same class");
        }
        return (IntUnaryOperator) work.getDeclaredConstructor().newInstance();
    }
}
