// SPDX-License-Identifier: Apache-2.0
package com.example.texstudio;

import android.os.FileObserver;
import android.os.Handler;
import android.os.Looper;

import dev.hindsight.cases.Case;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;

/** An editor with an open bibliography: each time another program changes the file, the main thread parses all of it. */
public final class Editor {
    public static void main(String[] args) throws Exception {
        Case run = Case.begin(args);
        Looper.prepareMainLooper();
        Bibliography bibliography = new Bibliography(run);
        bibliography.startWatching();
        run.ready();
        Looper.loop();
    }
}

/** The open file. */
final class Bibliography extends FileObserver {
    static final String NAME = "references.bib";
    /** In place of the size of the file: a line of it asks for this much work. */
    static final String LARGE = "@large";

    private final Case run;
    private final File file;
    private final Handler main = new Handler(Looper.getMainLooper());

    Bibliography(Case run) {
        super(run.folder().getPath(), CLOSE_WRITE);
        this.run = run;
        file = new File(run.folder(), NAME);
    }

    /** On the thread of all observers. */
    @Override
    public void onEvent(int event, String path) {
        if (NAME.equals(path)) {
            main.post(new CheckDocument(run, file));
        }
    }
}

/** Parses the changed file, on the main thread. */
final class CheckDocument implements Runnable {
    private static final int LARGE_ENTRIES = 750;

    private final Case run;
    private final File file;

    CheckDocument(Case run, File file) {
        this.run = run;
        this.file = file;
    }

    @Override
    public void run() {
        try {
            String text = new String(Files.readAllBytes(file.toPath()), StandardCharsets.UTF_8);
            boolean isLarge = text.startsWith(Bibliography.LARGE);
            new BibParser().parse(text, isLarge ? LARGE_ENTRIES : 1);
            if (isLarge) {
                run.done();
            }
        } catch (java.io.IOException error) {
            run.fail(error);
        }
    }
}

/** Parses a bibliography. */
final class BibParser {
    private final List<String> keys = new ArrayList<>();

    void parse(String text, int entries) {
        for (int i = 0; i < entries; i++) {
            keys.add(parseEntry(text, i));
        }
    }

    private static String parseEntry(String text, int number) {
        Case.Budget budget = new Case.Budget(2);
        int hash = number;
        while (budget.isLeft()) {
            for (int i = 0; i < text.length(); i++) {
                hash = 31 * hash + text.charAt(i);
            }
        }
        return "key" + hash;
    }
}
