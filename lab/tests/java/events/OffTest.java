// SPDX-License-Identifier: Apache-2.0

import dev.hindsight.Events;

/** Calls everything of {@link Events}, for an ART that records nothing. */
public final class OffTest {
    public static void main(String[] args) {
        int name = Events.register("a mark");
        Events.mark(name);
        Events.post(name, 7);
        Events.begin(name, 7);
        Events.end(name, 7);
        Events.sample(true);
        System.out.println(name + " " + Events.register("another"));
    }
}
