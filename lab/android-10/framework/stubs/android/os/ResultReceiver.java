// SPDX-License-Identifier: Apache-2.0
package android.os;

/** Only a type in the signature of {@code IBinder.shellCommand}. */
public class ResultReceiver {}
