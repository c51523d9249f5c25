// SPDX-License-Identifier: Apache-2.0
package dev.hindsight;

import java.io.IOException;

/** The system service has refused a command. The message is the service's own: the reason, and the remedy. */
public final class ConsentException extends IOException {
    private static final long serialVersionUID = 1;

    ConsentException(String message) {
        super(message);
    }
}
