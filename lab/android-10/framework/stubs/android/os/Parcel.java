// SPDX-License-Identifier: Apache-2.0
package android.os;

/** Flattening needs libbinder, which the lab does not have: every call says so. */
public final class Parcel {
    private Parcel() {}

    static UnsupportedOperationException unsupported() {
        return new UnsupportedOperationException("the lab's framework has no parcels");
    }

    public void writeInt(int value) {
        throw unsupported();
    }

    public void writeLong(long value) {
        throw unsupported();
    }

    public void writeString(String value) {
        throw unsupported();
    }

    public void writeParcelable(Parcelable value, int flags) {
        throw unsupported();
    }

    public void writeBundle(Bundle value) {
        throw unsupported();
    }

    public void writeStrongBinder(IBinder value) {
        throw unsupported();
    }

    public int readInt() {
        throw unsupported();
    }

    public long readLong() {
        throw unsupported();
    }

    public String readString() {
        throw unsupported();
    }

    public <T extends Parcelable> T readParcelable(ClassLoader loader) {
        throw unsupported();
    }

    public Bundle readBundle() {
        throw unsupported();
    }

    public IBinder readStrongBinder() {
        throw unsupported();
    }
}
