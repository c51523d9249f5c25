// SPDX-License-Identifier: Apache-2.0

import java.util.ArrayList;
import java.util.List;
import java.util.Timer;
import java.util.TimerTask;

/** Tasks of a timer; some are cancelled. */
final class Timers extends Actor {
    private final Dice dice;

    Timers(String name, long seed) {
        super(name);
        dice = new Dice(seed);
    }

    private static final class Task extends TimerTask {
        private volatile String runner;

        @Override
        public void run() {
            runner = Thread.currentThread().getName();
        }
    }

    @Override
    void play() {
        Timer timer = new Timer(getName() + "-0");
        List<Task> tasks = new ArrayList<>();
        List<Task> cancelled = new ArrayList<>();
        int rounds = 3 + dice.below(10);
        for (int i = 0; i < rounds; i++) {
            Task task = new Task();
            timer.schedule(task, dice.below(5));
            // If this says true, it is never run.
            if (dice.below(4) == 0 && task.cancel()) {
                cancelled.add(task);
            } else {
                tasks.add(task);
            }
        }
        for (Task task : tasks) {
            while (task.runner == null) {
                Thread.yield();
            }
            log.task("timer", System.identityHashCode(task), getName(), task.runner);
        }
        for (Task task : cancelled) {
            log.line("cancelled", "timer", Integer.toString(System.identityHashCode(task)), getName(), getName());
        }
        timer.cancel();
    }
}
