// SPDX-License-Identifier: Apache-2.0
package com.android.org.conscrypt;

import java.io.FileInputStream;
import java.io.IOException;
import java.security.Provider;
import java.security.SecureRandomSpi;

/** Stands for Conscrypt's provider, which Debian has no package of: of what that provides, it only has random numbers. */
public final class OpenSSLProvider extends Provider {
    public OpenSSLProvider() {
        super("AndroidOpenSSL", 1.0, "random numbers");
        put("SecureRandom.SHA1PRNG", Random.class.getName());
    }

    /** The kernel's random numbers, as Conscrypt gives them under this name. */
    public static final class Random extends SecureRandomSpi {
        @Override
        protected void engineSetSeed(byte[] seed) {
            // The kernel needs none.
        }

        @Override
        protected void engineNextBytes(byte[] bytes) {
            try (FileInputStream random = new FileInputStream("/dev/urandom")) {
                for (int filled = 0; filled < bytes.length; ) {
                    int read = random.read(bytes, filled, bytes.length - filled);
                    if (read < 0) {
                        throw new IllegalStateException("no random numbers are left");
                    }
                    filled += read;
                }
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }

        @Override
        protected byte[] engineGenerateSeed(int length) {
            byte[] seed = new byte[length];
            engineNextBytes(seed);
            return seed;
        }
    }
}
