// SPDX-License-Identifier: Apache-2.0
package android.app;

import android.os.IBinder;
import android.os.RemoteException;

/** The alarm service as {@code SystemClock} sees it. The lab has no such service. */
public interface IAlarmManager {
    boolean setTime(long millis) throws RemoteException;

    long currentNetworkTimeMillis() throws RemoteException;

    /** What the AIDL compiler would generate, for a service that never exists. */
    abstract class Stub {
        public static IAlarmManager asInterface(IBinder binder) {
            return null;
        }
    }
}
