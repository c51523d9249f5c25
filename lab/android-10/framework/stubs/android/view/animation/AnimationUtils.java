// SPDX-License-Identifier: Apache-2.0
package android.view.animation;

/** The clock that {@code Choreographer} freezes for animations during a frame; nothing animates here. */
public final class AnimationUtils {
    private AnimationUtils() {}

    public static void lockAnimationClock(long millis) {}

    public static void unlockAnimationClock() {}
}
