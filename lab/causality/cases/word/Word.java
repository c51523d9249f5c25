// SPDX-License-Identifier: Apache-2.0
package com.example.word;

import android.os.FileObserver;
import android.os.Handler;
import android.os.Looper;
import android.os.Message;

import dev.hindsight.cases.Case;

import java.io.File;

/** A word processor: when its template is replaced, the main thread computes all styles again. */
public final class Word {
    public static void main(String[] args) {
        Case run = Case.begin(args);
        Looper.prepareMainLooper();
        TemplateObserver observer = new TemplateObserver(run.folder(), new StyleHandler(run, Looper.getMainLooper()));
        observer.startWatching();
        run.ready();
        Looper.loop();
    }
}

/** Sees that the template was replaced. */
final class TemplateObserver extends FileObserver {
    static final String TEMPLATE = "normal.dot";
    static final String LARGE_TEMPLATE = "large.dot";

    private final StyleHandler styles;

    TemplateObserver(File folder, StyleHandler styles) {
        super(folder.getPath(), MOVED_TO);
        this.styles = styles;
    }

    @Override
    public void onEvent(int event, String path) {
        if (TEMPLATE.equals(path)) {
            styles.obtainMessage(StyleHandler.TEMPLATE_CHANGED, 1, 0).sendToTarget();
        } else if (LARGE_TEMPLATE.equals(path)) {
            styles.obtainMessage(StyleHandler.TEMPLATE_CHANGED, StyleHandler.LARGE, 0).sendToTarget();
        }
    }
}

/** Computes the styles, on the main thread. */
final class StyleHandler extends Handler {
    static final int TEMPLATE_CHANGED = 3;
    static final int LARGE = 750;

    private final Case run;
    private double width;

    StyleHandler(Case run, Looper looper) {
        super(looper);
        this.run = run;
    }

    @Override
    public void handleMessage(Message message) {
        for (int i = 0; i < message.arg1; i++) {
            computeStyle(i);
        }
        if (message.arg1 == LARGE) {
            run.done();
        }
    }

    private void computeStyle(int number) {
        Case.Budget budget = new Case.Budget(2);
        while (budget.isLeft()) {
            for (int i = 1; i < 200; i++) {
                width += Math.sqrt(number + i);
            }
        }
    }
}
