// SPDX-License-Identifier: Apache-2.0
package android.content.pm;

/** What the package manager tells a process of its app: only the version. */
public class ApplicationInfo {
    public long longVersionCode;
}
