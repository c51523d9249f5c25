// SPDX-License-Identifier: Apache-2.0

import dev.hindsight.Uploads;

import java.io.IOException;

/** Allows uploads for so many minutes, or stops them, one argument after the other, and prints what came of each. */
public final class UploadsTest {
    private UploadsTest() {}

    /** The socket; then numbers of minutes, or "stop". */
    public static void main(String[] args) {
        Uploads uploads = new Uploads(args[0]);
        for (int i = 1; i < args.length; i++) {
            String said = "done";
            try {
                if (args[i].equals("stop")) {
                    uploads.stop();
                } else {
                    uploads.allow(Integer.parseInt(args[i]));
                }
            } catch (IOException e) {
                said = "failed: " + e.getMessage();
            } catch (IllegalArgumentException e) {
                said = "wrong: " + e.getMessage();
            }
            System.out.println(args[i] + ": " + said);
        }
        System.exit(0);
    }
}
