// SPDX-License-Identifier: Apache-2.0
package com.example.notes;

import android.os.Looper;

import dev.hindsight.Hindsight;
import dev.hindsight.Watchdog;

import java.io.File;
import java.util.Random;

/**
 * The program of Hindsight's demo: a list of notes whose main thread runs 60 frames a second, and about two
 * seconds after the start stalls, because of a mistake in {@link NoteStore#saveAll}. It ends by itself soon
 * after the watchdog has seen the stall.
 *
 * <p>It does the same in each run (the random numbers have a fixed seed), at times that depend on the
 * scheduler.
 */
public final class NotesApp implements Watchdog.Listener {
    private static final int NOTES = 400;
    private static final int WORDS_PER_NOTE = 40;
    private static final long SEED = 20;
    /** Enough for some frames after the stall. */
    private static final long LINGER_MILLIS = 500;
    /** The demo fails if there was no stall until then. */
    private static final long GIVE_UP_MILLIS = 20_000;

    private static final String[] VOCABULARY = {
        "milk", "bread", "train", "garden", "birthday", "call", "Anna", "tickets", "on", "Monday", "the", "to",
        "remember", "umbrella", "at", "seven", "library", "books", "and", "new", "lamp", "kitchen", "list",
    };

    private final NoteListScreen screen;

    private NotesApp(NoteListScreen screen) {
        this.screen = screen;
    }

    /**
     * @param args the folder where the notes are kept; and for how many milliseconds the storage stalls
     */
    public static void main(String[] args) {
        if (args.length < 1 || args.length > 2) {
            System.err.println("usage: com.example.notes.NotesApp FOLDER [STALL-MILLIS]");
            System.exit(2);
        }
        Looper.prepareMainLooper();
        long stallMillis = args.length == 2 ? Long.parseLong(args[1]) : NoteFile.FLASH_STALL_MILLIS;
        NoteStore store = new NoteStore(new NoteFile(new File(args[0], "notes.tsv"), stallMillis));
        fill(store, new Random(SEED));

        NoteListScreen screen = new NoteListScreen(store);
        NotesApp app = new NotesApp(screen);
        Watchdog.watch(Looper.getMainLooper(), Watchdog.DEFAULT_LIMIT_MILLIS, app);
        System.out.println("notes: started, tracing is " + (Hindsight.isTracing() ? "on" : "off"));

        screen.show();
        new SyncWorker(store, screen.handler, SEED).start();
        new ScriptedUser(store, screen, SEED).start();
        screen.handler.postDelayed(() -> app.end(1, "no stall within " + GIVE_UP_MILLIS + " ms"), GIVE_UP_MILLIS);
        Looper.loop();
    }

    private static void fill(NoteStore store, Random random) {
        for (int id = 0; id < NOTES; id++) {
            StringBuilder text = new StringBuilder();
            for (int i = 0; i < WORDS_PER_NOTE; i++) {
                text.append(VOCABULARY[random.nextInt(VOCABULARY.length)]).append(' ');
            }
            store.put(new Note(id, "Note " + id, text.toString(), 0));
        }
        store.publish();
    }

    @Override
    public void onStall(String reason, String file) {
        System.out.println("notes: stall: " + reason);
        System.out.println("notes: trace: " + (file == null ? "none (tracing is off)" : file));
        screen.handler.postDelayed(() -> end(0, screen.summary()), LINGER_MILLIS);
    }

    /** Exits: the main looper never returns, and the threads of AsyncTask's pool never end. */
    private void end(int status, String last) {
        System.out.println("notes: " + last);
        System.exit(status);
    }
}
