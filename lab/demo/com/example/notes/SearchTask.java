// SPDX-License-Identifier: Apache-2.0
package com.example.notes;

import android.os.AsyncTask;

import java.util.ArrayList;
import java.util.List;

/** Looks for a word in all notes, in the background. */
final class SearchTask extends AsyncTask<String, Void, List<Note>> {
    private final NoteStore store;
    private final NoteListScreen screen;

    SearchTask(NoteStore store, NoteListScreen screen) {
        this.store = store;
        this.screen = screen;
    }

    @Override
    protected List<Note> doInBackground(String... words) {
        List<Note> found = new ArrayList<>();
        for (Note note : store.snapshot()) {
            if (matches(note, words)) {
                found.add(note);
            }
        }
        return found;
    }

    private static boolean matches(Note note, String[] words) {
        for (String word : words) {
            if (!note.contains(word)) {
                return false;
            }
        }
        return true;
    }

    @Override
    protected void onPostExecute(List<Note> found) {
        screen.showSearchResult(found);
    }
}
