// SPDX-License-Identifier: Apache-2.0

import java.io.FileWriter;
import java.io.IOException;
import java.io.Writer;
import java.util.ArrayList;
import java.util.List;

/**
 * Threads that wait for each other and hand tasks to each other, and write down who did what: the truth that
 * `cargo xtask verify events` compares a recording with. The seed determines what each thread does.
 *
 * <p>Arguments: seed, number of scenes, file for the truth. Its lines:
 *
 * <pre>
 * wait THREAD KIND RESULT WAKER HOW   the thread's next wait of this kind; WAKER is - if nobody ended it; RESULT may be any;
 *                                     HOW is always, or perhaps if the wake-up may have come before the wait
 * race THREAD WAKER                   who alone may have ended waits of this thread; whether one waited is not known
 * lock THREAD OWNER NUMBER            how often the thread waited for a lock that this owner then released to it
 * order THREAD…                       the owners of a lock, one after the other
 * task KIND ID FROM TO                the task was submitted by FROM, and run by TO
 * cancelled KIND ID FROM BY           the task was submitted by FROM, and taken out of its queue by BY
 * item ID FROM TO                     FROM put the element into a queue, and TO took it
 * unpaired item ID                    the element was in the queue twice: nobody knows which is which
 * post NAME ID FROM TO                the program handed work over
 * </pre>
 *
 * <p>What is not certain is not written: a thread that is about to wait is not a thread that waits.
 */
public final class Causes {
    private Causes() {}

    public static void main(String[] arguments) throws Exception {
        Dice dice = new Dice(Long.parseLong(arguments[0]));
        int scenes = Integer.parseInt(arguments[1]);
        prepare(dice);
        Log log = new Log();
        List<Log> logs = new ArrayList<>();
        logs.add(log);
        int number = 0;
        while (number < scenes) {
            // Several scenes at a time disturb each other.
            int together = Math.min(1 + dice.below(4), scenes - number);
            List<Thread> threads = new ArrayList<>();
            for (int i = 0; i < together; i++, number++) {
                for (Actor actor : cast(dice, number)) {
                    logs.add(actor.log);
                    threads.add(actor);
                }
            }
            if (dice.below(3) == 0) {
                threads.add(new Noise("noise" + number, dice.next()));
            }
            for (Thread thread : threads) {
                log.task("thread", thread.getId(), "main", thread.getName());
                thread.start();
            }
            for (Thread thread : threads) {
                thread.join();
            }
        }
        try (Writer file = new FileWriter(arguments[2])) {
            for (Log one : logs) {
                one.write(file);
            }
        }
        System.out.println("done");
    }

    /** The threads of a random scene. */
    private static Actor[] cast(Dice dice, int number) {
        // One of each first.
        switch (number < 10 ? number : dice.below(12)) {
            case 0:
                return new Talk(number, dice).actors();
            case 1:
                return new Crowd(number, dice).actors();
            case 2:
                return new Lock(number, dice).actors();
            case 3:
                return new Race(number, dice).actors();
            case 4:
                return new Actor[] {new Pool("pool" + number, dice.next())};
            case 5:
                return new Actor[] {new Fork("fork" + number, dice.next())};
            case 6:
                return new Actor[] {new Timers("timers" + number, dice.next())};
            case 7:
                return new Post(number, dice).actors();
            case 8:
                return new Queues(number, dice).actors();
            case 9:
                return Meet.random(number, dice).actors();
            default:
                return new Talk(number, dice).actors();
        }
    }

    /** Initializes classes: a thread that waits until another one has done it would have one more wait. */
    private static void prepare(Dice dice) throws Exception {
        String[] names = {
            "Talk", "Talk$Waiter", "Talk$Waker", "Crowd", "Crowd$Waiter", "Crowd$Notifier", "Lock", "Lock$Owner",
            "Lock$Contender", "Race", "Race$Waiter", "Race$Waker", "Race$Hammer", "Post", "Post$Sender",
            "Post$Receiver", "dev.hindsight.Events", "Queues", "Queues$Producer", "Queues$Consumer", "Pool", "Fork",
            "Timers", "Actor", "Log",
            "java.util.concurrent.locks.LockSupport", "java.lang.Thread$State", "java.lang.InterruptedException",
        };
        for (String name : names) {
            Class.forName(name);
        }
        Meet.prepare(dice);
        Thread.currentThread().getState();
        new InterruptedException().toString();
    }
}

/** A thread with its own log, so that writing it down never waits. */
abstract class Actor extends Thread {
    final Log log = new Log();

    Actor(String name) {
        super(name);
    }

    abstract void play() throws Exception;

    @Override
    public final void run() {
        try {
            play();
        } catch (Throwable e) {
            synchronized (System.out) {
                System.out.println("finding: " + getName() + ": " + e);
                e.printStackTrace(System.out);
                System.out.flush();
            }
            System.exit(1);
        }
    }

    /** Waits without a wait that is recorded. */
    static void pause(int turns) {
        for (int i = 0; i < turns; i++) {
            Thread.yield();
        }
    }

    /** Waits until the thread is parked or sleeps. */
    static void awaitWaiting(Thread thread) {
        while (true) {
            Thread.State state = thread.getState();
            if (state == Thread.State.WAITING || state == Thread.State.TIMED_WAITING) {
                return;
            }
            Thread.yield();
        }
    }
}

/** Collects garbage and lets the collector suspend all threads. */
final class Noise extends Actor {
    private final Dice dice;
    private static volatile Object sink;

    Noise(String name, long seed) {
        super(name);
        dice = new Dice(seed);
    }

    @Override
    void play() {
        for (int i = 0; i < 200; i++) {
            sink = new byte[1 + dice.below(50000)];
            if (i % 100 == 50) {
                Runtime.getRuntime().gc();
            }
        }
    }
}

/** What one thread knows. */
final class Log {
    private final StringBuilder text = new StringBuilder();

    void wait(String thread, String kind, String result, String waker, boolean always) {
        line("wait", thread, kind, result, waker == null ? "-" : waker, always ? "always" : "perhaps");
    }

    void task(String kind, long id, String from, String to) {
        line("task", kind, Long.toString(id), from, to);
    }

    void line(String... words) {
        for (int i = 0; i < words.length; i++) {
            text.append(words[i]).append(i + 1 < words.length ? ' ' : '\n');
        }
    }

    void add(Log other) {
        text.append(other.text);
    }

    void write(Writer file) throws IOException {
        file.write(text.toString());
    }
}

/** xorshift64*: the same on every platform. */
final class Dice {
    private long state;

    Dice(long seed) {
        state = seed * 0x9E3779B97F4A7C15L ^ 0x2545F4914F6CDD1DL;
        if (state == 0) {
            state = 1;
        }
    }

    synchronized long next() {
        state ^= state >>> 12;
        state ^= state << 25;
        state ^= state >>> 27;
        return state * 0x2545F4914F6CDD1DL;
    }

    /** A number from 0 to less than the limit. */
    int below(int limit) {
        return (int) ((next() >>> 33) % limit);
    }
}
