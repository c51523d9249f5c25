// SPDX-License-Identifier: Apache-2.0
// Calls of every kind: virtual, interface, default, lambda, proxy, method handle, reflection, native, in hot loops.

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.IntUnaryOperator;

public class Calls {
    interface Shape {
        int area();

        default int twice() {
            return 2 * area();
        }
    }

    static class Square implements Shape {
        final int side;

        Square(int side) {
            this.side = side;
        }

        public int area() {
            return side * side;
        }
    }

    static class Box extends Square {
        Box(int side) {
            super(side);
        }

        @Override
        public int area() {
            return 6 * super.area();
        }
    }

    static int sum;

    static int apply(IntUnaryOperator operator, int value) {
        return operator.applyAsInt(value);
    }

    static int add(int a, int b) {
        return a + b;
    }

    static long hot(int rounds) {
        long result = 0;
        for (int i = 0; i < rounds; i++) {
            result = result * 31 + add(i, sum & 1);
        }
        return result;
    }

    static int fibonacci(int n) {
        return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
    }

    public static void main(String[] args) throws Throwable {
        Shape[] shapes = {new Square(2), new Box(3), () -> 7};
        for (int i = 0; i < 300; i++) {
            Shape shape = shapes[i % shapes.length];
            sum += shape.area() + shape.twice();
            int captured = i;
            sum += apply(x -> x + captured, i);
        }
        Shape proxy = (Shape) Proxy.newProxyInstance(Calls.class.getClassLoader(), new Class<?>[] {Shape.class},
                new InvocationHandler() {
                    @Override
                    public Object invoke(Object self, Method method, Object[] arguments) {
                        return method.getName().length();
                    }
                });
        for (int i = 0; i < 20; i++) {
            sum += proxy.area() + proxy.twice();
        }
        MethodHandle handle = MethodHandles.lookup().findStatic(
                Calls.class, "add", MethodType.methodType(int.class, int.class, int.class));
        for (int i = 0; i < 20; i++) {
            sum += (int) handle.invokeExact(i, 1);
        }
        Method method = Calls.class.getDeclaredMethod("add", int.class, int.class);
        for (int i = 0; i < 20; i++) {
            sum += (Integer) method.invoke(null, i, 1);
        }
        System.out.println(hot(100000));
        System.out.println(fibonacci(18));
        List<String> list = new ArrayList<>();
        Map<String, Integer> map = new HashMap<>();
        for (int i = 0; i < 200; i++) {
            String text = "n" + (i * 7919 % 200);
            list.add(text);
            map.put(text, i);
        }
        Collections.sort(list, Comparator.comparing(String::length).thenComparing(Comparator.reverseOrder()));
        System.out.println(list.get(0) + new TreeMap<>(map).firstKey() + String.format("%5d %s", sum, "end"));
        byte[] bytes = new byte[1000];
        System.arraycopy(bytes, 0, bytes, 100, 100);
        System.out.println(Math.sqrt(sum) + Math.pow(2, 10) + Math.sin(1));
    }
}
