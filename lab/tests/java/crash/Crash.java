// SPDX-License-Identifier: Apache-2.0

/** Two threads end by exceptions that nothing catches; the program lives on. */
public final class Crash {
    private static final class Thrower extends Thread {
        private final RuntimeException exception;

        Thrower(String name, RuntimeException exception) {
            super(name);
            this.exception = exception;
        }

        @Override
        public void run() {
            throw exception;
        }
    }

    public static void main(String[] arguments) throws Exception {
        Thread[] throwers = {
            new Thrower("first", new IllegalStateException("one")),
            new Thrower("second", new IllegalArgumentException("two")),
        };
        for (Thread thrower : throwers) {
            thrower.start();
            thrower.join();
        }
        System.out.println("goes on");
    }
}
