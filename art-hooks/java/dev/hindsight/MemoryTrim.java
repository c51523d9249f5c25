// SPDX-License-Identifier: Apache-2.0
package dev.hindsight;

import android.os.Looper;
import android.os.MessageQueue;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;

/**
 * Tells Hindsight when the system trims the app's memory. By reflection, because the classes of components are not part of
 * every build of this package.
 */
final class MemoryTrim {
    private MemoryTrim() {}

    /** Registers as soon as the looper, which must be the main looper, is idle and the application exists. */
    static void listen(Looper main) {
        main.getQueue()
                .addIdleHandler(
                        new MessageQueue.IdleHandler() {
                            @Override
                            public boolean queueIdle() {
                                return !register();
                            }
                        });
    }

    /** Returns whether no further attempt is needed: there is an application, or there will be none. */
    private static boolean register() {
        try {
            Object application =
                    Class.forName("android.app.ActivityThread")
                            .getMethod("currentApplication")
                            .invoke(null);
            if (application == null) {
                return false;
            }
            Class<?> callbacks = Class.forName("android.content.ComponentCallbacks");
            Object listener = listener(Class.forName("android.content.ComponentCallbacks2"));
            application
                    .getClass()
                    .getMethod("registerComponentCallbacks", callbacks)
                    .invoke(application, listener);
        } catch (ReflectiveOperationException e) {
            // No framework, or another one: the memory stays in use.
        }
        return true;
    }

    /** A listener of this type that passes the levels of {@code onTrimMemory} on. */
    static Object listener(Class<?> type) {
        return Proxy.newProxyInstance(
                type.getClassLoader(),
                new Class<?>[] {type},
                new InvocationHandler() {
                    @Override
                    public Object invoke(Object proxy, Method method, Object[] arguments) {
                        switch (method.getName()) {
                            case "onTrimMemory":
                                Hindsight.trimMemory((Integer) arguments[0]);
                                return null;
                            case "equals":
                                return proxy == arguments[0];
                            case "hashCode":
                                return System.identityHashCode(proxy);
                            case "toString":
                                return "dev.hindsight.MemoryTrim";
                            default:
                                return null;
                        }
                    }
                });
    }
}
