// SPDX-License-Identifier: Apache-2.0
package android.os;

/** An engineering build of Android 10, as constants; the original reads them from properties. */
public final class Build {
    public static final boolean IS_DEBUGGABLE = true;
    public static final boolean IS_ENG = true;
    public static final boolean IS_USER = false;
    public static final boolean IS_USERDEBUG = false;
    public static final String TYPE = "eng";

    private Build() {}

    public static final class VERSION {
        public static final int SDK_INT = VERSION_CODES.Q;

        private VERSION() {}
    }

    public static final class VERSION_CODES {
        public static final int BASE = 1;
        public static final int GINGERBREAD = 9;
        public static final int HONEYCOMB = 11;
        public static final int ICE_CREAM_SANDWICH = 14;
        public static final int JELLY_BEAN = 16;
        public static final int KITKAT = 19;
        public static final int LOLLIPOP = 21;
        public static final int M = 23;
        public static final int N = 24;
        public static final int N_MR1 = 25;
        public static final int O = 26;
        public static final int O_MR1 = 27;
        public static final int P = 28;
        public static final int Q = 29;
        public static final int CUR_DEVELOPMENT = 10000;

        private VERSION_CODES() {}
    }
}
