// SPDX-License-Identifier: Apache-2.0
package android.content;

/** Only the names of the services that {@code SystemClock} looks up. */
public abstract class Context {
    public static final String ALARM_SERVICE = "alarm";
    public static final String LOCATION_SERVICE = "location";
}
