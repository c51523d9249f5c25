// SPDX-License-Identifier: Apache-2.0
package dev.hindsight;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;

/**
 * Tells Hindsight when the system trims the app's memory. By reflection, because the classes of components are not part of
 * every build of this package.
 */
final class MemoryTrim {
    private MemoryTrim() {}

    /** Registers with this object, an {@code android.app.Application}. */
    static void listen(Object application) throws ReflectiveOperationException {
        Class<?> callbacks = Class.forName("android.content.ComponentCallbacks");
        Object listener = listener(Class.forName("android.content.ComponentCallbacks2"));
        application
                .getClass()
                .getMethod("registerComponentCallbacks", callbacks)
                .invoke(application, listener);
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
