// SPDX-License-Identifier: Apache-2.0

import dalvik.system.ZygoteHooks;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;

/** Transitions into and out of managed code that need native code, {@code paths.c}, or many threads. */
public final class Paths {
    static volatile int sink;

    private Paths() {}

    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "native":
                System.loadLibrary("paths");
                attachThreads(20, 5);
                throwing();
                break;
            case "zygote":
                System.loadLibrary("paths");
                zygote();
                break;
            case "forks":
                System.loadLibrary("paths");
                forks();
                break;
            case "short":
                shortLived(Integer.parseInt(args[1]));
                break;
            case "crowd":
                crowd(Integer.parseInt(args[1]));
                break;
            default:
                throw new IllegalArgumentException(args[0]);
        }
        System.out.println("done");
        System.in.read();
    }

    /** Called by native threads. */
    static int fromNative(int n) {
        return inner(n) + 1;
    }

    static int inner(int n) {
        sink += n;
        return n;
    }

    /** Called from native code, which is called from managed code; throws. */
    static void backAndThrow() {
        throw new IllegalStateException("from managed code");
    }

    private static void throwing() {
        for (int i = 0; i < 200; i++) {
            try {
                throwNew();
                throw new AssertionError();
            } catch (IllegalStateException e) {
                sink++;
            }
            try {
                callBack(false);
                throw new AssertionError();
            } catch (IllegalStateException e) {
                sink++;
            }
            callBack(true);
        }
    }

    private static void zygote() throws Exception {
        ZygoteHooks.preFork();
        int child = fork();
        if (child == 0) {
            ZygoteHooks.postForkChild(0, false, false, null);
            ZygoteHooks.postForkCommon();
            for (int i = 0; i < 100; i++) {
                inChild(i);
            }
            Thread thread = new Thread(() -> inChild(7), "after the fork");
            thread.start();
            thread.join();
            System.exit(0);
        }
        ZygoteHooks.postForkCommon();
        System.out.println("child " + child + " " + waitFor(child));
    }

    /** Forks without exec, from native code as heap dumpers do, while other threads run. */
    private static void forks() throws Exception {
        inner(1);
        int child = fork();
        if (child == 0) {
            for (int i = 0; i < 100; i++) {
                inChild(i);
            }
            Thread.currentThread().setName("START_TRACING");
            endChild("START_TRACING".equals(Thread.currentThread().getName()) ? 0 : 1);
        }
        System.out.println("child " + child + " " + waitFor(child));
        afterFork(1);
    }

    static int afterFork(int n) {
        return inner(n);
    }

    static int inChild(int n) {
        return inner(n);
    }

    /** Threads that live for a call, some at a time. */
    private static void shortLived(int count) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Thread thread = new Thread(null, () -> inner(1), "short", 64 * 1024);
            thread.start();
            threads.add(thread);
            if (threads.size() == 20) {
                for (Thread t : threads) {
                    t.join();
                }
                threads.clear();
            }
        }
        for (Thread t : threads) {
            t.join();
        }
    }

    /** Threads that all live at the same time. */
    private static void crowd(int count) throws Exception {
        CountDownLatch started = new CountDownLatch(count);
        CountDownLatch end = new CountDownLatch(1);
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Thread thread = new Thread(null, () -> {
                inner(1);
                started.countDown();
                try {
                    end.await();
                } catch (InterruptedException e) {
                    throw new AssertionError(e);
                }
            }, "crowd", 64 * 1024);
            thread.start();
            threads.add(thread);
        }
        started.await();
        System.out.println("crowded");
        System.in.read();
        end.countDown();
        for (Thread thread : threads) {
            thread.join();
        }
    }

    /** Threads that attach themselves, call {@link #fromNative} and detach, several times each. */
    private static native void attachThreads(int threads, int times);

    /** Throws an IllegalStateException. */
    private static native void throwNew();

    /** Calls {@link #backAndThrow}, and clears its exception or returns with it. */
    private static native void callBack(boolean clear);

    private static native int fork();

    private static native void endChild(int status);

    /** The exit status. */
    private static native int waitFor(int pid);
}
