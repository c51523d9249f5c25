// SPDX-License-Identifier: Apache-2.0

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.ForkJoinWorkerThread;
import java.util.concurrent.RecursiveAction;
import java.util.concurrent.TimeUnit;

/** Tasks that fork others, in a pool of their own. */
final class Fork extends Actor implements ForkJoinPool.ForkJoinWorkerThreadFactory {
    private final Dice dice;
    private final List<Work> works = new ArrayList<>();
    private final List<Log> logs = new ArrayList<>();
    private int threads;

    Fork(String name, long seed) {
        super(name);
        dice = new Dice(seed);
    }

    private static final class Worker extends ForkJoinWorkerThread {
        Worker(ForkJoinPool pool, String name) {
            super(pool);
            setName(name);
        }
    }

    @Override
    public ForkJoinWorkerThread newThread(ForkJoinPool pool) {
        synchronized (logs) {
            Worker worker = new Worker(pool, getName() + "-" + threads++);
            Log started = new Log();
            started.task("thread", worker.getId(), Thread.currentThread().getName(), worker.getName());
            logs.add(started);
            return worker;
        }
    }

    private final class Work extends RecursiveAction {
        private final int depth;
        private final String submitter;
        private volatile String runner;

        Work(int depth) {
            this.depth = depth;
            submitter = Thread.currentThread().getName();
            synchronized (works) {
                works.add(this);
            }
        }

        @Override
        protected void compute() {
            runner = Thread.currentThread().getName();
            pause(5);
            if (depth > 0) {
                Work left = new Work(depth - 1);
                Work right = new Work(depth - 1);
                left.fork();
                right.fork();
                right.join();
                left.join();
            }
        }
    }

    @Override
    void play() throws Exception {
        ForkJoinPool pool = new ForkJoinPool(1 + dice.below(3), this, null, false);
        int rounds = 1 + dice.below(4);
        for (int i = 0; i < rounds; i++) {
            Work work = new Work(dice.below(4));
            switch (dice.below(3)) {
                case 0:
                    pool.invoke(work);
                    break;
                case 1:
                    pool.submit(work).get();
                    break;
                default:
                    pool.execute(work);
                    work.join();
                    break;
            }
        }
        pool.shutdown();
        pool.awaitTermination(10, TimeUnit.MINUTES);
        for (Work work : works) {
            log.task("fork-join", System.identityHashCode(work), work.submitter, work.runner);
        }
        for (Log started : logs) {
            log.add(started);
        }
    }
}
