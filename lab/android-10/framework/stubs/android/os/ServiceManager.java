// SPDX-License-Identifier: Apache-2.0
package android.os;

/** A device without services. */
public final class ServiceManager {
    private ServiceManager() {}

    public static IBinder getService(String name) {
        return null;
    }

    public static IBinder getServiceOrThrow(String name) {
        throw new IllegalStateException("the lab has no service " + name);
    }
}
