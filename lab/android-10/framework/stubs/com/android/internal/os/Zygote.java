// SPDX-License-Identifier: Apache-2.0
package com.android.internal.os;

/** The one flag of it that {@code Trace} reads. */
public final class Zygote {
    public static final int DEBUG_JAVA_DEBUGGABLE = 1 << 8;

    private Zygote() {}
}
