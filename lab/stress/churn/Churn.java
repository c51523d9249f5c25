// SPDX-License-Identifier: Apache-2.0

/** Loaded by a new class loader each time. Compiled code that counts on there being one implementation is deoptimized. */
public final class Churn {
    private Churn() {}

    static class Base {
        int value() {
            return 1;
        }
    }

    static final class Derived extends Base {
        @Override
        int value() {
            return 2;
        }
    }

    /** {@code 3 * n}. */
    public static int run(int n) throws Exception {
        int sum = loop(new Base(), n, 0);
        // Derived is not loaded before this.
        Base derived = (Base) Class.forName("Churn$Derived", true, Churn.class.getClassLoader())
                .getDeclaredConstructor().newInstance();
        return sum + loop(derived, n, 0);
    }

    private static int loop(Base base, int n, int depth) {
        int sum = 0;
        for (int i = 0; i < n; i++) {
            sum += call(base, depth);
        }
        return sum;
    }

    private static int call(Base base, int depth) {
        return base.value() + depth;
    }
}
