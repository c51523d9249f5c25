// SPDX-License-Identifier: Apache-2.0

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Hands tasks to executors: by execute, submit and schedule; some repeat, some are refused, removed, cancelled or left. */
final class Pool extends Actor implements ThreadFactory {
    private final Dice dice;
    private final List<Log> logs = Collections.synchronizedList(new ArrayList<Log>());
    private int threads;

    Pool(String name, long seed) {
        super(name);
        dice = new Dice(seed);
    }

    /** A task; it knows who runs it. */
    private static final class Task implements Runnable {
        volatile String runner;
        private final int turns;

        Task(int turns) {
            this.turns = turns;
        }

        @Override
        public void run() {
            runner = Thread.currentThread().getName();
            pause(turns);
        }
    }

    @Override
    public synchronized Thread newThread(Runnable work) {
        Thread thread = new Thread(work, getName() + "-" + threads++);
        Log started = new Log();
        // The thread that makes it starts it.
        started.task("thread", thread.getId(), Thread.currentThread().getName(), thread.getName());
        logs.add(started);
        return thread;
    }

    @Override
    void play() throws Exception {
        int size = 1 + dice.below(3);
        ThreadPoolExecutor plain =
                new ThreadPoolExecutor(size, size, 1, TimeUnit.SECONDS, new LinkedBlockingQueue<Runnable>(), this);
        ScheduledThreadPoolExecutor timed = new ScheduledThreadPoolExecutor(1 + dice.below(2), this);
        List<Object> objects = new ArrayList<>();
        List<Task> tasks = new ArrayList<>();
        List<Future<?>> awaited = new ArrayList<>();
        int rounds = 5 + dice.below(25);
        for (int i = 0; i < rounds; i++) {
            Task task = new Task(dice.below(20));
            Object identity = task;
            switch (dice.below(5)) {
                case 0:
                    plain.execute(task);
                    break;
                case 1:
                    Future<?> future = plain.submit(task);
                    identity = future;
                    awaited.add(future);
                    break;
                case 2:
                    Future<?> later = timed.schedule(task, dice.below(3), TimeUnit.MILLISECONDS);
                    identity = later;
                    awaited.add(later);
                    break;
                case 3:
                    // It may have begun already.
                    plain.execute(task);
                    if (plain.remove(task)) {
                        log.line("cancelled", "executor", Integer.toString(System.identityHashCode(task)), getName(),
                                getName());
                    }
                    break;
                default:
                    pause(dice.below(50));
                    continue;
            }
            objects.add(identity);
            tasks.add(task);
            if (dice.below(4) == 0 && !awaited.isEmpty()) {
                awaited.get(dice.below(awaited.size())).get();
            }
        }
        refuse();
        repeat();
        giveUp();
        plain.shutdown();
        timed.shutdown();
        plain.awaitTermination(10, TimeUnit.MINUTES);
        timed.awaitTermination(10, TimeUnit.MINUTES);
        for (int i = 0; i < tasks.size(); i++) {
            String runner = tasks.get(i).runner;
            if (runner != null) {
                log.task("executor", System.identityHashCode(objects.get(i)), getName(), runner);
            }
        }
        for (Log started : logs) {
            log.add(started);
        }
    }

    /** A task that runs several times, until it throws. */
    private void repeat() throws Exception {
        final List<String> runners = new ArrayList<>();
        final int times = 1 + dice.below(5);
        ScheduledThreadPoolExecutor timed = new ScheduledThreadPoolExecutor(2, this);
        Future<?> future = timed.scheduleAtFixedRate(() -> {
            runners.add(Thread.currentThread().getName());
            if (runners.size() == times) {
                throw new IllegalStateException("enough");
            }
        }, dice.below(2), 1, TimeUnit.MILLISECONDS);
        try {
            future.get();
        } catch (ExecutionException expected) {
            String from = getName();
            for (String runner : runners) {
                log.task("executor", System.identityHashCode(future), from, runner);
                from = runner;
            }
        }
        timed.shutdown();
        timed.awaitTermination(10, TimeUnit.MINUTES);
    }

    /** Tasks that are cancelled before they are due, and tasks that are left when the executor ends. */
    private void giveUp() throws Exception {
        ScheduledThreadPoolExecutor timed = new ScheduledThreadPoolExecutor(1, this);
        timed.setRemoveOnCancelPolicy(dice.below(2) == 0);
        int count = 1 + dice.below(3);
        for (int i = 0; i < count; i++) {
            Future<?> future = timed.schedule(new Task(0), 1, TimeUnit.HOURS);
            future.cancel(dice.below(2) == 0);
            gaveUp(future);
        }
        timed.schedule(new Task(0), 1, TimeUnit.HOURS);
        for (Runnable left : timed.shutdownNow()) {
            // Those that were cancelled may still be in the queue.
            if (!((Future<?>) left).isCancelled()) {
                gaveUp(left);
            }
        }
        timed.awaitTermination(10, TimeUnit.MINUTES);
    }

    private void gaveUp(Object task) {
        log.line("cancelled", "executor", Integer.toString(System.identityHashCode(task)), getName(), getName());
    }

    /** An executor that has no thread left for a task. */
    private void refuse() throws Exception {
        ThreadPoolExecutor narrow =
                new ThreadPoolExecutor(1, 1, 1, TimeUnit.SECONDS, new SynchronousQueue<Runnable>(), this);
        final Task first = new Task(500);
        narrow.execute(first);
        Task second = new Task(0);
        boolean refused = false;
        try {
            narrow.execute(second);
        } catch (RejectedExecutionException e) {
            refused = true;
        }
        narrow.shutdown();
        narrow.awaitTermination(10, TimeUnit.MINUTES);
        log.task("executor", System.identityHashCode(first), getName(), first.runner);
        if (refused) {
            log.line("cancelled", "executor", Integer.toString(System.identityHashCode(second)), getName(), getName());
        } else {
            log.task("executor", System.identityHashCode(second), getName(), second.runner);
        }
    }
}
