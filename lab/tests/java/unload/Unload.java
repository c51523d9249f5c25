// SPDX-License-Identifier: Apache-2.0

import dalvik.system.PathClassLoader;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.ref.WeakReference;
import java.lang.reflect.Proxy;

/**
 * Calls methods of a class loader that is then unloaded: methods of a proxy, and a default method, which ART copies
 * into each class that does not override it.
 */
public final class Unload {
    private Unload() {}

    /** Loaded anew by the loader that is unloaded. */
    public interface Greeter {
        default String greet(String name) {
            return "hello, " + name;
        }

        String leave(String name);
    }

    /** Loaded anew by the loader that is unloaded; inherits the default method. */
    public static final class Polite implements Greeter, Runnable {
        @Override
        public String leave(String name) {
            return "good-bye, " + name;
        }

        @Override
        public void run() {
            Greeter proxy = (Greeter) Proxy.newProxyInstance(getClass().getClassLoader(),
                    new Class<?>[] {Greeter.class}, (self, method, arguments) -> "proxy");
            for (int i = 0; i < 3; i++) {
                Greeter polite = this;
                check(polite.greet("you").equals("hello, you"));
                check(polite.leave("you").equals("good-bye, you"));
                check(proxy.leave("you").equals("proxy"));
            }
        }

        private static void check(boolean isRight) {
            if (!isRight) {
                throw new AssertionError();
            }
        }
    }

    public static void main(String[] args) throws Exception {
        WeakReference<ClassLoader> loader = use();
        while (isAlive(loader)) {
            System.gc();
            System.runFinalization();
        }
        System.out.println("unloaded");
        new BufferedReader(new InputStreamReader(System.in)).readLine();
    }

    /** A method of its own, so that no register of the caller keeps the loader alive. */
    private static boolean isAlive(WeakReference<ClassLoader> loader) {
        return loader.get() != null;
    }

    private static WeakReference<ClassLoader> use() throws Exception {
        ClassLoader loader = new PathClassLoader(System.getProperty("java.class.path"),
                ClassLoader.getSystemClassLoader().getParent());
        Class<?> polite = loader.loadClass(Polite.class.getName());
        if (polite == Polite.class) {
            throw new AssertionError("the same class");
        }
        ((Runnable) polite.getDeclaredConstructor().newInstance()).run();
        return new WeakReference<>(loader);
    }
}
