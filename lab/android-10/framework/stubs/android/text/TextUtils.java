// SPDX-License-Identifier: Apache-2.0
package android.text;

/** The one method of it that the originals call; the whole class pulls in resources and text layout. */
public final class TextUtils {
    private TextUtils() {}

    public static boolean isEmpty(CharSequence text) {
        return text == null || text.length() == 0;
    }
}
