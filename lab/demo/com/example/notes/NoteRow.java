// SPDX-License-Identifier: Apache-2.0
package com.example.notes;

/** A row of the list: the title, and the beginning of the text below it. */
final class NoteRow extends ViewNode {
    private static final int PREVIEW_LENGTH = 60;

    private final TextNode title = new TextNode();
    private final TextNode preview = new TextNode();

    NoteRow() {
        add(title);
        add(preview);
    }

    void bind(Note note) {
        title.setText(note.title);
        preview.setText(note.text.substring(0, Math.min(PREVIEW_LENGTH, note.text.length())));
    }
}
