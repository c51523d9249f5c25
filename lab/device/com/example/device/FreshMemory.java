// SPDX-License-Identifier: Apache-2.0
package com.example.device;

import android.system.ErrnoException;
import android.system.Os;
import android.system.OsConstants;

import java.io.FileDescriptor;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;

import libcore.io.Memory;

/**
 * Memory that nobody has touched: as a thread that records into an empty ring, its user gets a new page now and then. Another
 * thread maps it ahead, and unmaps what was used, so that neither holds the user.
 */
final class FreshMemory {
    private static final int BYTES = 32 << 20;
    private static final int PAGE = 4096;

    private final FileDescriptor zeros;
    private final BlockingQueue<Long> ready = new ArrayBlockingQueue<>(2);
    private final BlockingQueue<Long> used = new ArrayBlockingQueue<>(4);
    private long start;
    private int at = BYTES;
    private int touched;

    FreshMemory() {
        try {
            zeros = Os.open("/dev/zero", OsConstants.O_RDWR, 0);
        } catch (ErrnoException e) {
            throw new IllegalStateException(e);
        }
        Thread mapper = new Thread(this::map, "mapper");
        mapper.setDaemon(true);
        mapper.start();
    }

    /** Uses so many bytes more. If none is mapped yet, as on a busy machine, it uses none. */
    void use(int bytes) {
        if (at + bytes > BYTES) {
            Long next = ready.poll();
            if (next == null) {
                return;
            }
            if (start != 0) {
                used.offer(start);
            }
            start = next;
            at = 0;
            touched = 0;
        }
        at += bytes;
        while (touched < at) {
            Memory.pokeByte(start + touched, (byte) 1);
            touched += PAGE;
        }
    }

    private void map() {
        try {
            while (true) {
                ready.put(Os.mmap(0, BYTES, OsConstants.PROT_READ | OsConstants.PROT_WRITE,
                        OsConstants.MAP_PRIVATE, zeros, 0));
                for (Long old = used.poll(); old != null; old = used.poll()) {
                    Os.munmap(old, BYTES);
                }
            }
        } catch (ErrnoException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
