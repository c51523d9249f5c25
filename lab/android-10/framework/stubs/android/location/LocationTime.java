// SPDX-License-Identifier: Apache-2.0
package android.location;

/** The result of a service that does not exist here: only a type for signatures. */
public final class LocationTime {
    private LocationTime() {}

    public long getTime() {
        return 0;
    }

    public long getElapsedRealtimeNanos() {
        return 0;
    }
}
