// SPDX-License-Identifier: Apache-2.0
// Trivial methods, which may have no trace points: called, throwing, as bridges, and next to methods that are nearly trivial.

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

public class Trivial {
    static int caught;

    static class Point implements Comparable<Point> {
        static int made;

        int x;
        Object any;
        int[] numbers;
        Point next;

        // Calls Object's constructor only.
        Point(int x) {
            this.x = x;
        }

        int x() {
            return x;
        }

        void set(int value) {
            x = value;
        }

        static int made() {
            return made;
        }

        // Null pointer.
        int nextX() {
            return next.x;
        }

        // Null pointer, bounds.
        int number(int index) {
            return numbers[index];
        }

        // A cast that fails.
        String text() {
            return (String) any;
        }

        // Division.
        int part(int of) {
            return of / x;
        }

        boolean isEmpty() {
            return x == 0;
        }

        int sign() {
            return x < 0 ? -1 : x == 0 ? 0 : 1;
        }

        // Not trivial: a call, an allocation, a string, another class, a loop, a lock, an exception.
        int calls() {
            return x();
        }

        Point copy() {
            return new Point(x);
        }

        String name() {
            return "point";
        }

        int other() {
            return Later.value;
        }

        int loop(int n) {
            while (n > x) {
                n--;
            }
            return n;
        }

        synchronized int locked() {
            return x;
        }

        void fails() {
            throw null;
        }

        // The bridge compareTo(Object) casts and calls this.
        @Override
        public int compareTo(Point other) {
            return Integer.compare(x, other.x);
        }
    }

    static class Later {
        static int value = compute();

        static int compute() {
            return Point.made() + 3;
        }
    }

    abstract static class Shape<T> {
        abstract T of(T value);
    }

    // The bridge of(Object) calls of(Point), which throws for null.
    static class Square extends Shape<Point> {
        @Override
        Point of(Point value) {
            value.set(value.x() * value.x());
            return value;
        }
    }

    static int attempt(Point point, int which) {
        try {
            switch (which) {
                case 0:
                    return point.nextX();
                case 1:
                    return point.number(7);
                case 2:
                    return point.text().length();
                case 3:
                    return point.part(5);
                case 4:
                    point.fails();
                    return 0;
                default:
                    return point.x();
            }
        } catch (NullPointerException | ArrayIndexOutOfBoundsException | ClassCastException | ArithmeticException e) {
            return caught++;
        }
    }

    // The exception passes frames with trace points, too.
    static int deep(Point point, int which, int depth) {
        return depth == 0 ? failing(point, which) : deep(point, which, depth - 1);
    }

    static int failing(Point point, int which) {
        return which == 0 ? point.nextX() : which == 1 ? point.number(-1) : which == 2 ? point.part(1) : point.text().length();
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static int bridges(Object value) {
        Shape shape = new Square();
        try {
            return ((Point) shape.of(value)).x();
        } catch (NullPointerException | ClassCastException e) {
            return caught++;
        }
    }

    static int round(int n) {
        Point point = new Point(n % 3);
        point.any = n % 2 == 0 ? "text" : (Object) point;
        point.numbers = n % 5 == 0 ? null : new int[n % 10];
        point.next = n % 4 == 0 ? null : point;
        int sum = point.calls() + point.copy().x() + point.name().length() + point.other() + point.loop(n) + point.locked();
        sum += point.sign() + (point.isEmpty() ? 1 : 0) + Point.made();
        for (int which = 0; which < 6; which++) {
            sum += attempt(point, which);
        }
        for (int which = 0; which < 4; which++) {
            try {
                sum += deep(point, which, n % 5);
            } catch (RuntimeException e) {
                sum += caught++;
            }
        }
        return sum + bridges(point) + bridges(null) + bridges("wrong");
    }

    public static void main(String[] args) {
        long sum = 0;
        List<Point> points = new ArrayList<>();
        for (int n = 0; n < 300; n++) {
            sum += round(n);
            points.add(new Point((n * 7919) % 101));
        }
        points.sort(null);
        points.sort(Comparator.comparingInt(Point::x));
        points.sort((a, b) -> b.compareTo(a));
        System.out.println(sum + " " + caught + " " + points.get(0).x());
    }
}
