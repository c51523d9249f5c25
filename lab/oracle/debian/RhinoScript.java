// SPDX-License-Identifier: Apache-2.0
// JavaScript in Rhino's interpreter: closures, prototypes, regular expressions, sorting, exceptions.
// Prints: {"f":89,"l":"oehrtuabcdfgijklmnpqsvwxyz","a":[{"name":"x","balance":26},{"name":"y","balance":15},{"name":"z","balance":24}],"n":[0,2,3,5,6],"x":5,"d":"DOG LAZY THE OVER JUMPS FOX BROWN QUICK THE"}

import org.mozilla.javascript.Context;
import org.mozilla.javascript.Scriptable;

public class RhinoScript {
    private static final String SCRIPT = String.join("\n",
            "function fibonacci(n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }",
            "function Account(name) { this.name = name; this.balance = 0; }",
            "Account.prototype.add = function (amount) {",
            "  if (amount < 0) throw new RangeError('no: ' + amount);",
            "  this.balance += amount;",
            "  return this;",
            "};",
            "var text = 'the quick brown fox jumps over the lazy dog';",
            "var count = {};",
            "text.replace(/[a-z]/g, function (c) { count[c] = (count[c] || 0) + 1; return c; });",
            "var letters = Object.keys(count).sort(function (a, b) {",
            "  return count[b] - count[a] || (a < b ? -1 : 1);",
            "});",
            "var accounts = ['x', 'y', 'z'].map(function (name, i) { return new Account(name).add(10 * i); });",
            "var failed = 0;",
            "for (var i = 0; i < 20; i++) {",
            "  try { accounts[i % 3].add(i % 4 - 1); } catch (e) { failed++; } finally { accounts[0].balance++; }",
            "}",
            "var numbers = [];",
            "for (var j = 0; j < 60; j++) numbers.push((j * 7919) % 101);",
            "numbers.sort(function (a, b) { return a - b; });",
            "JSON.stringify({f: fibonacci(11), l: letters.join(''), a: accounts, n: numbers.slice(0, 5), x: failed,",
            "  d: text.split(/\\s+/).reverse().join(' ').toUpperCase()});");

    static {
        // Rhino creates date formats, which read the clock and behave differently when the time has changed.
        try {
            Class.forName("org.mozilla.javascript.NativeDate");
        } catch (ClassNotFoundException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    public static void main(String[] args) {
        Context context = Context.enter();
        try {
            // Without generated class files, which ART can't load.
            context.setOptimizationLevel(-1);
            Scriptable scope = context.initStandardObjects();
            System.out.println(Context.toString(context.evaluateString(scope, SCRIPT, "script", 1, null)));
        } finally {
            Context.exit();
        }
    }
}
