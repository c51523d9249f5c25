// SPDX-License-Identifier: Apache-2.0
package android.os;

import java.util.HashMap;
import java.util.Set;

/** A map of values that is never parcelled, for {@code Message.getData} within one process. */
public final class Bundle implements Cloneable, Parcelable {
    private final HashMap<String, Object> map = new HashMap<>();

    public Bundle() {}

    public Bundle(Bundle other) {
        map.putAll(other.map);
    }

    public void putInt(String key, int value) {
        map.put(key, value);
    }

    public int getInt(String key) {
        Object value = map.get(key);
        return value == null ? 0 : (Integer) value;
    }

    public void putLong(String key, long value) {
        map.put(key, value);
    }

    public long getLong(String key) {
        Object value = map.get(key);
        return value == null ? 0 : (Long) value;
    }

    public void putString(String key, String value) {
        map.put(key, value);
    }

    public String getString(String key) {
        return (String) map.get(key);
    }

    public Set<String> keySet() {
        return map.keySet();
    }

    @Override
    public int describeContents() {
        return 0;
    }

    @Override
    public void writeToParcel(Parcel out, int flags) {
        throw Parcel.unsupported();
    }

    @Override
    public Object clone() {
        return new Bundle(this);
    }

    @Override
    public String toString() {
        return "Bundle" + map;
    }
}
