// SPDX-License-Identifier: Apache-2.0
package com.android.org.bouncycastle.jce.provider;

import java.security.Provider;

/** The provider that Android has a copy of, by another name: it provides what Debian's Bouncy Castle does if the program has that. */
public final class BouncyCastleProvider extends Provider {
    private static final String ORIGINAL = "org.bouncycastle.jce.provider.BouncyCastleProvider";

    public BouncyCastleProvider() {
        super("BC", 1.0, "Bouncy Castle, if the program has it");
        try {
            putAll((Provider) Class.forName(ORIGINAL).newInstance());
        } catch (ClassNotFoundException none) {
            // The program has no need of it.
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }
}
