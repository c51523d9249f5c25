// SPDX-License-Identifier: Apache-2.0
package com.example.word;

import dev.hindsight.cases.Case;

import java.io.File;
import java.io.IOException;

/** Another program, which replaces the word processor's templates. */
public final class Updater {
    private static final int SMALL_UPDATES = 3;

    public static void main(String[] args) throws Exception {
        Case run = Case.begin(args);
        run.start("updater", () -> {
            for (int i = 0; i < SMALL_UPDATES; i++) {
                replace(run.folder(), TemplateObserver.TEMPLATE);
                Thread.sleep(50);
            }
            replace(run.folder(), TemplateObserver.LARGE_TEMPLATE);
        });
        run.ready();
        run.stay();
    }

    private static void replace(File folder, String name) throws IOException {
        File next = File.createTempFile("template", ".new", folder);
        if (!next.renameTo(new File(folder, name))) {
            throw new IOException("cannot replace " + name);
        }
    }
}
