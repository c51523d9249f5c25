// SPDX-License-Identifier: Apache-2.0
package com.example.notes;

import java.io.BufferedWriter;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** The notes on disk: one line each, in a file that is replaced as a whole. */
final class NoteFile {
    /**
     * The time that a cheap phone's storage may need to make a write durable while it collects garbage. The
     * machine that runs the demo has faster storage, so the wait is simulated.
     */
    static final long FLASH_STALL_MILLIS = 650;

    private final File file;
    private final long stallMillis;

    NoteFile(File file, long stallMillis) {
        this.file = file;
        this.stallMillis = stallMillis;
    }

    void writeAll(List<Note> notes) throws IOException {
        File temporary = new File(file.getPath() + ".new");
        try (FileOutputStream out = new FileOutputStream(temporary)) {
            Writer writer = new BufferedWriter(new OutputStreamWriter(out, StandardCharsets.UTF_8));
            for (Note note : notes) {
                writeNote(writer, note);
            }
            writer.flush();
            syncToFlash(out);
        }
        if (!temporary.renameTo(file)) {
            throw new IOException("cannot replace " + file.getName());
        }
    }

    private void writeNote(Writer writer, Note note) throws IOException {
        writer.write(Integer.toString(note.id));
        writer.write('\t');
        writer.write(note.title);
        writer.write('\t');
        writer.write(note.text);
        writer.write('\n');
    }

    private void syncToFlash(FileOutputStream out) throws IOException {
        out.getFD().sync();
        try {
            Thread.sleep(stallMillis);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
