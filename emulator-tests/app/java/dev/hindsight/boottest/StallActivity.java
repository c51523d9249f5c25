// SPDX-License-Identifier: Apache-2.0
package dev.hindsight.boottest;

import android.app.Activity;
import android.os.Bundle;

/** The app on a device: {@code am start} creates it on the main thread. */
public final class StallActivity extends Activity {
    @Override
    protected void onCreate(Bundle state) {
        super.onCreate(state);
        Stall.post();
    }
}
