// SPDX-License-Identifier: Apache-2.0
package com.example.texstudio;

import dev.hindsight.cases.Case;

import java.io.File;
import java.io.FileOutputStream;
import java.nio.charset.StandardCharsets;

/** Another editor, in which the user changes the file. */
public final class Vim {
    private static final int SMALL_SAVES = 3;

    public static void main(String[] args) throws Exception {
        Case run = Case.begin(args);
        File file = new File(run.folder(), Bibliography.NAME);
        run.start("vim", () -> {
            for (int i = 0; i < SMALL_SAVES; i++) {
                save(file, "@article{a, title={A}}\n");
                Thread.sleep(50);
            }
            save(file, Bibliography.LARGE + "{a, title={A}}\n");
        });
        run.ready();
        run.stay();
    }

    private static void save(File file, String text) throws java.io.IOException {
        try (FileOutputStream out = new FileOutputStream(file)) {
            out.write(text.getBytes(StandardCharsets.UTF_8));
        }
    }
}
