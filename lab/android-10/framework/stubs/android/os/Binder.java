// SPDX-License-Identifier: Apache-2.0
package android.os;

/**
 * A binder that never leaves its process. The identity that {@code Looper} saves and compares around
 * each message is the real one: there is no other caller than this process.
 */
public class Binder implements IBinder {
    private IInterface owner;
    private String descriptor;

    public static final long clearCallingIdentity() {
        return ((long) Process.myUid() << 32) | Process.myPid();
    }

    public static final void restoreCallingIdentity(long token) {}

    public static final void flushPendingCommands() {}

    public static final int getCallingUid() {
        return Process.myUid();
    }

    public static final int getCallingPid() {
        return Process.myPid();
    }

    public void attachInterface(IInterface owner, String descriptor) {
        this.owner = owner;
        this.descriptor = descriptor;
    }

    @Override
    public String getInterfaceDescriptor() {
        return descriptor;
    }

    @Override
    public boolean pingBinder() {
        return true;
    }

    @Override
    public boolean isBinderAlive() {
        return true;
    }

    @Override
    public IInterface queryLocalInterface(String descriptor) {
        return descriptor.equals(this.descriptor) ? owner : null;
    }

    @Override
    public void dump(java.io.FileDescriptor fd, String[] args) {}

    @Override
    public void dumpAsync(java.io.FileDescriptor fd, String[] args) {}

    @Override
    public void shellCommand(
            java.io.FileDescriptor in,
            java.io.FileDescriptor out,
            java.io.FileDescriptor err,
            String[] args,
            ShellCallback shellCallback,
            ResultReceiver resultReceiver) {}

    @Override
    public final boolean transact(int code, Parcel data, Parcel reply, int flags)
            throws RemoteException {
        throw new RemoteException("no binder driver in the lab");
    }

    @Override
    public void linkToDeath(DeathRecipient recipient, int flags) {}

    @Override
    public boolean unlinkToDeath(DeathRecipient recipient, int flags) {
        return true;
    }
}
