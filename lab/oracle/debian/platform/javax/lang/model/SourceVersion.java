// SPDX-License-Identifier: Apache-2.0
// As much of a class that Android lacks as Rhino asks for: which release of the language there is.

package javax.lang.model;

public enum SourceVersion {
    RELEASE_0, RELEASE_1, RELEASE_2, RELEASE_3, RELEASE_4, RELEASE_5, RELEASE_6, RELEASE_7, RELEASE_8;

    public static SourceVersion latestSupported() {
        return RELEASE_8;
    }
}
