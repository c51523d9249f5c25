// SPDX-License-Identifier: Apache-2.0

import dalvik.system.DexFile;

import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** Loads many classes, calls methods of many others, and takes snapshots while another thread collects garbage. */
public final class Names {
    /** Each pair of them is implemented by a proxy class, which has methods of its own. */
    private static final int INTERFACES = 80;

    private static final List<Class<?>> interfaces = new ArrayList<>();
    private static final List<Object> proxies = new ArrayList<>();
    private static volatile boolean done;
    private static volatile int collections;

    private Names() {}

    public static void main(String[] args) throws Exception {
        int loaded = load(System.getProperty("java.boot.class.path").split(":"));
        System.out.println("many classes: " + (loaded > 3000));
        makeProxies();
        System.out.println("many methods: " + (proxies.size() > 2000));
        Thread collector = new Thread(Names::collect, "collector");
        collector.start();
        int before = collections;
        for (int i = 0; i < 5; i++) {
            for (Object proxy : proxies) {
                proxy.hashCode();
            }
            Thread.currentThread().setName("STOP_TRACING:" + args[0] + "/" + i + ".hindsight");
        }
        // The last snapshot is complete, so all names are there.
        while (collections - before < 5) {
            Thread.yield();
        }
        done = true;
        collector.join();
        System.out.println("done");
        System.exit(0);
    }

    /** Each collection suspends all threads. */
    private static void collect() {
        while (!done) {
            Runtime.getRuntime().gc();
            collections++;
        }
    }

    private static void makeProxies() {
        for (Class<?> a : interfaces) {
            for (Class<?> b : interfaces) {
                try {
                    Class<?>[] both = {a, b};
                    ClassLoader loader = Names.class.getClassLoader();
                    proxies.add(Proxy.newProxyInstance(loader, both, (proxy, method, args) -> 7));
                } catch (IllegalArgumentException e) {
                    // The two exclude each other, or are the same.
                }
            }
        }
    }

    /** Loads the classes of these files. */
    private static int load(String[] files) throws Exception {
        int loaded = 0;
        for (String file : files) {
            DexFile dex = new DexFile(file);
            for (String name : Collections.list(dex.entries())) {
                try {
                    Class<?> type = Class.forName(name, false, null);
                    loaded++;
                    boolean isPlain = Modifier.isPublic(type.getModifiers()) && type.getDeclaringClass() == null;
                    if (type.isInterface() && !type.isAnnotation() && isPlain && interfaces.size() < INTERFACES) {
                        interfaces.add(type);
                    }
                } catch (Throwable e) {
                    // Some classes are for tools only.
                }
            }
            dex.close();
        }
        return loaded;
    }
}
