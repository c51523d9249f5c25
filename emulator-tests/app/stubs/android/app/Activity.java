// SPDX-License-Identifier: Apache-2.0
package android.app;

import android.os.Bundle;

/** What the compiler needs of the device's class; it does not become part of the APK. */
public class Activity {
    protected void onCreate(Bundle state) {}
}
