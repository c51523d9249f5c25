// SPDX-License-Identifier: Apache-2.0
package com.example.notes;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.TreeMap;

/** All notes, in memory and on disk. Its lock guards the map; {@link #snapshot} needs no lock. */
final class NoteStore {
    private final TreeMap<Integer, Note> notes = new TreeMap<>();
    private final NoteFile file;
    private volatile List<Note> snapshot = Collections.emptyList();
    private boolean dirty;

    NoteStore(NoteFile file) {
        this.file = file;
    }

    synchronized Note find(int id) {
        return notes.get(id);
    }

    synchronized void put(Note note) {
        notes.put(note.id, note);
        dirty = true;
    }

    synchronized void publish() {
        snapshot = Collections.unmodifiableList(new ArrayList<>(notes.values()));
    }

    /** The notes that the list on the screen shows, as of the last {@link #publish}. */
    List<Note> snapshot() {
        return snapshot;
    }

    /**
     * Writes all notes to disk.
     *
     * <p>This is the mistake in the demo: the lock is held while the file is written, so a thread that calls
     * {@link #find} meanwhile, such as the main thread, waits for the storage.
     */
    synchronized void saveAll() throws IOException {
        if (!dirty) {
            return;
        }
        file.writeAll(new ArrayList<>(notes.values()));
        dirty = false;
    }
}
