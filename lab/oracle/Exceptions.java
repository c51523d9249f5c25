// SPDX-License-Identifier: Apache-2.0
// Exceptions: thrown and caught through frames of every kind, in initializers, by the runtime, at the stack's end.

import java.lang.reflect.InvocationTargetException;

public class Exceptions {
    static int caught;

    static class Broken {
        static int value = fail();

        static int fail() {
            throw new IllegalStateException("broken");
        }
    }

    static void throwAt(int depth) {
        if (depth == 0) {
            throw new RuntimeException("thrown");
        }
        throwAt(depth - 1);
    }

    static void rethrow(int depth) {
        try {
            throwAt(depth);
        } finally {
            caught++;
        }
    }

    static void nested(int depth) {
        try {
            rethrow(depth);
        } catch (RuntimeException first) {
            try {
                throwAt(depth / 2);
            } catch (RuntimeException second) {
                caught += 2;
            }
            throw new IllegalArgumentException(first);
        }
    }

    static int implicit(Object[] array, int index, int divisor) {
        try {
            return array[index].hashCode() / divisor;
        } catch (NullPointerException | ArithmeticException | ArrayIndexOutOfBoundsException e) {
            return caught++;
        }
    }

    static int deep(int n) {
        return n + deep(n + 1);
    }

    static synchronized void locked() {
        throwAt(3);
    }

    public static void reflected() {
        throwAt(2);
    }

    public static void main(String[] args) throws Exception {
        for (int i = 0; i < 50; i++) {
            try {
                nested(i % 7);
            } catch (IllegalArgumentException e) {
                caught++;
            }
            try {
                locked();
            } catch (RuntimeException e) {
                caught++;
            }
        }
        Object[] array = {null, "a"};
        for (int i = -1; i < 4; i++) {
            implicit(array, i, 0);
        }
        for (int i = 0; i < 2; i++) {
            try {
                caught += Broken.value;
            } catch (ExceptionInInitializerError | NoClassDefFoundError e) {
                caught++;
            }
        }
        try {
            Exceptions.class.getMethod("reflected").invoke(null);
        } catch (InvocationTargetException e) {
            caught++;
        }
        try {
            Object text = "text";
            caught += (Integer) text;
        } catch (ClassCastException e) {
            caught++;
        }
        try {
            "short".substring(9);
        } catch (StringIndexOutOfBoundsException e) {
            caught++;
        }
        System.out.println(caught);
    }
}
