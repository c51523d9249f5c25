// SPDX-License-Identifier: Apache-2.0
// Java as a script in BeanShell: its parser, its interpreter, and reflection.
// Prints: 5,4,3,2,1,721{k0=413, k1=512, k2=450, k3=262, k4=473, k5=285, k6=489}

import bsh.Interpreter;

public class BeanShellScript {
    private static final String SCRIPT = String.join("\n",
            "int square(int x) { return x * x; }",
            "counter() { n = 0; next() { return ++n; } return this; }",
            "c = counter();",
            "list = new ArrayList();",
            "for (int i = 0; i < 40; i++) { list.add(square((i * 17) % 23) + c.next()); }",
            "Collections.sort(list);",
            "map = new TreeMap();",
            "for (x : list) { map.put(\"k\" + x % 7, x); }",
            "failures = 0;",
            "for (int i = 0; i < 10; i++) {",
            "  try { if (i % 3 == 0) throw new IllegalStateException(\"i\" + i); \"text\".substring(i); }",
            "  catch (RuntimeException e) { failures++; }",
            "}",
            "StringBuilder text = new StringBuilder();",
            "i = 5; do { text.append(i).append(','); } while (--i > 0);",
            "switch (failures) { case 5: text.append(\"five\"); break; default: text.append(failures); }",
            "return text.toString() + list.get(3) + map;");

    public static void main(String[] args) throws Exception {
        System.out.println(new Interpreter().eval(SCRIPT));
    }
}
