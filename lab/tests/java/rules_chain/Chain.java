// SPDX-License-Identifier: Apache-2.0

import dalvik.system.BaseDexClassLoader;
import dalvik.system.DexFile;
import dalvik.system.PathClassLoader;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Method;

/**
 * Methods that compilers inline into each other, over the dex files of a jar: {@code First} and {@code Last} are in the
 * first one, {@code Middle} is in the second. Answers each number with the sum of so many calls, and {@code close} with the
 * number of dex files that are left after all of a class loader were closed.
 */
public final class Chain {
    private Chain() {}

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.equals("close")) {
                System.out.println(close());
                continue;
            }
            Work work = new Work(Integer.parseInt(line));
            work.start();
            work.join();
            System.out.println(work.sum);
        }
    }

    /**
     * Closes the dex files of a class loader that has loaded a class from the first one. ART frees those of which no class
     * was loaded, unless they are registered. Returns the number of the others.
     */
    private static int close() throws Exception {
        ClassLoader parent = ClassLoader.getSystemClassLoader().getParent();
        ClassLoader loader = new PathClassLoader(System.getProperty("java.class.path"), parent);
        loader.loadClass("Chain$First");
        Object path = get(BaseDexClassLoader.class, "pathList", loader);
        Object element = Array.get(get(path.getClass(), "dexElements", path), 0);
        Object file = get(element.getClass(), "dexFile", element);
        long[] cookie = (long[]) get(DexFile.class, "mInternalCookie", file);
        Method close = DexFile.class.getDeclaredMethod("closeDexFile", Object.class);
        close.setAccessible(true);
        close.invoke(null, cookie);
        int left = 0;
        // The first element is the compiled code's.
        for (int i = 1; i < cookie.length; i++) {
            left += cookie[i] != 0 ? 1 : 0;
        }
        return left;
    }

    private static Object get(Class<?> type, String name, Object from) throws Exception {
        Field field = type.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(from);
    }

    /** A thread, so that no call that runs already has these methods inlined. */
    static final class Work extends Thread {
        private final int calls;
        int sum;

        Work(int calls) {
            this.calls = calls;
        }

        @Override
        public void run() {
            Last last = new Last();
            for (int i = 0; i < calls; i++) {
                sum += last.last();
            }
        }
    }

    /** The methods are called on {@code this}, so that no check of a receiver keeps them from being inlined. */
    static class First {
        private int value = 1;

        final int first() {
            return value;
        }
    }

    static class Middle extends First {
        final int middle() {
            return first();
        }
    }

    static final class Last extends Middle {
        int last() {
            return middle();
        }
    }
}
