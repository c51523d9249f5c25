// SPDX-License-Identifier: Apache-2.0
package com.example.notes;

import android.os.Handler;
import android.os.Looper;
import android.os.Message;
import android.view.Choreographer;

import java.util.ArrayList;
import java.util.List;

/** The list of notes, which scrolls by itself, 60 frames a second; a tap opens a note. */
final class NoteListScreen implements Handler.Callback, Choreographer.FrameCallback {
    static final int MSG_LIST_CHANGED = 1;
    static final int MSG_OPEN_NOTE = 2;
    static final int MSG_SAVE_FAILED = 3;

    private static final int SCREEN_WIDTH = 360;
    private static final int SCREEN_HEIGHT = 640;
    private static final int VISIBLE_ROWS = 12;
    private static final int PIXELS_PER_FRAME = 3;
    private static final int ROW_HEIGHT = 40;

    final Handler handler = new Handler(Looper.getMainLooper(), this);

    private final NoteStore store;
    private final ViewNode list = new ViewNode();
    private final List<NoteRow> rows = new ArrayList<>();
    private final TextNode openNote = new TextNode();
    private int scrollY;
    private int frames;
    private int opened;
    private int found;
    private long pixels;

    NoteListScreen(NoteStore store) {
        this.store = store;
        for (int i = 0; i < VISIBLE_ROWS; i++) {
            NoteRow row = new NoteRow();
            rows.add(row);
            list.add(row);
        }
    }

    void show() {
        Choreographer.getInstance().postFrameCallback(this);
    }

    @Override
    public void doFrame(long frameTimeNanos) {
        scroll();
        bindVisibleRows();
        list.measure(SCREEN_WIDTH);
        list.layout(0);
        pixels += list.draw(0, SCREEN_HEIGHT);
        frames++;
        Choreographer.getInstance().postFrameCallback(this);
    }

    private void scroll() {
        int length = store.snapshot().size() * ROW_HEIGHT;
        scrollY = (scrollY + PIXELS_PER_FRAME) % length;
    }

    private void bindVisibleRows() {
        List<Note> notes = store.snapshot();
        int first = scrollY / ROW_HEIGHT;
        for (int i = 0; i < rows.size(); i++) {
            rows.get(i).bind(notes.get((first + i) % notes.size()));
        }
    }

    @Override
    public boolean handleMessage(Message msg) {
        switch (msg.what) {
            case MSG_LIST_CHANGED:
                bindVisibleRows();
                return true;
            case MSG_OPEN_NOTE:
                openNote(msg.arg1);
                return true;
            case MSG_SAVE_FAILED:
                System.err.println("notes: not saved: " + ((Exception) msg.obj).getMessage());
                return true;
            default:
                return false;
        }
    }

    private void openNote(int id) {
        Note note = store.find(id);
        openNote.setText(note.text);
        openNote.measure(SCREEN_WIDTH);
        pixels += openNote.draw(0, SCREEN_HEIGHT);
        opened++;
    }

    void showSearchResult(List<Note> notes) {
        found = notes.size();
    }

    /** A line for the log. */
    String summary() {
        return frames + " frames, " + opened + " notes opened, " + found + " found, " + pixels
                + " pixels drawn";
    }
}
