// SPDX-License-Identifier: Apache-2.0

import java.util.ArrayList;
import java.util.List;
import java.util.Timer;
import java.util.TimerTask;

/** Tasks of a timer: some are cancelled, some repeat, some are left when the timer ends. */
final class Timers extends Actor {
    private final Dice dice;

    Timers(String name, long seed) {
        super(name);
        dice = new Dice(seed);
    }

    private static final class Task extends TimerTask {
        /** How often it runs. Then it cancels itself. */
        private final int times;
        private volatile int runs;
        private volatile String runner;

        Task(int times) {
            this.times = times;
        }

        @Override
        public void run() {
            runner = Thread.currentThread().getName();
            if (runs + 1 == times && times > 1) {
                cancel();
            }
            runs++;
        }
    }

    @Override
    void play() {
        Timer timer = new Timer(getName() + "-0");
        List<Task> tasks = new ArrayList<>();
        List<Task> cancelled = new ArrayList<>();
        int rounds = 3 + dice.below(10);
        for (int i = 0; i < rounds; i++) {
            if (dice.below(3) == 0) {
                Task task = new Task(2 + dice.below(4));
                timer.schedule(task, dice.below(5), 1 + dice.below(2));
                tasks.add(task);
                continue;
            }
            Task task = new Task(1);
            timer.schedule(task, dice.below(5));
            // If this says true, it is never run.
            if (dice.below(4) == 0 && task.cancel()) {
                cancelled.add(task);
            } else {
                tasks.add(task);
            }
        }
        for (Task task : tasks) {
            while (task.runs < task.times) {
                Thread.yield();
            }
            int id = System.identityHashCode(task);
            log.task("timer", id, getName(), task.runner);
            for (int i = 1; i < task.times; i++) {
                log.task("timer", id, task.runner, task.runner);
            }
            if (task.times > 1) {
                log.line("cancelled", "timer", Integer.toString(id), task.runner, task.runner);
            }
        }
        int left = dice.below(3);
        for (int i = 0; i < left; i++) {
            Task task = new Task(1);
            timer.schedule(task, 1000 * 1000);
            cancelled.add(task);
        }
        timer.cancel();
        for (Task task : cancelled) {
            log.line("cancelled", "timer", Integer.toString(System.identityHashCode(task)), getName(), getName());
        }
    }
}
