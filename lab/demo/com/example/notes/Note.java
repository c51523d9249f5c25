// SPDX-License-Identifier: Apache-2.0
package com.example.notes;

/** One note. Immutable: an edit makes a new one. */
final class Note {
    final int id;
    final String title;
    final String text;
    final long modifiedMillis;

    Note(int id, String title, String text, long modifiedMillis) {
        this.id = id;
        this.title = title;
        this.text = text;
        this.modifiedMillis = modifiedMillis;
    }

    Note withText(String newText, long nowMillis) {
        return new Note(id, title, newText, nowMillis);
    }

    boolean contains(String word) {
        return title.contains(word) || text.contains(word);
    }
}
