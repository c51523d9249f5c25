// SPDX-License-Identifier: Apache-2.0
package android.os;

/** What the AIDL compiler makes of IMessenger.aidl, for calls within one process. */
public interface IMessenger extends IInterface {
    void send(Message msg) throws RemoteException;

    abstract class Stub extends Binder implements IMessenger {
        private static final String DESCRIPTOR = "android.os.IMessenger";

        public Stub() {
            attachInterface(this, DESCRIPTOR);
        }

        public static IMessenger asInterface(IBinder binder) {
            return binder == null ? null : (IMessenger) binder.queryLocalInterface(DESCRIPTOR);
        }

        @Override
        public IBinder asBinder() {
            return this;
        }
    }
}
