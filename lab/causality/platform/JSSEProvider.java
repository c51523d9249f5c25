// SPDX-License-Identifier: Apache-2.0
package com.android.org.conscrypt;

import java.security.Provider;

/** Stands for Conscrypt's provider of TLS: it provides nothing. */
public final class JSSEProvider extends Provider {
    public JSSEProvider() {
        super("HarmonyJSSE", 1.0, "nothing");
    }
}
