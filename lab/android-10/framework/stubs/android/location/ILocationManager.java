// SPDX-License-Identifier: Apache-2.0
package android.location;

import android.os.IBinder;
import android.os.RemoteException;

/** The location service as {@code SystemClock} sees it. The lab has no such service. */
public interface ILocationManager {
    LocationTime getGnssTimeMillis() throws RemoteException;

    /** What the AIDL compiler would generate, for a service that never exists. */
    abstract class Stub {
        public static ILocationManager asInterface(IBinder binder) {
            return null;
        }
    }
}
