// SPDX-License-Identifier: Apache-2.0

/** Works in a known chain of calls until it is killed, and says how far it is. */
public final class Killed {
  private static int sum;

  static int leaf(int n) {
    return n * 31 + 7;
  }

  static int inner(int n) {
    return n % 3 == 0 ? leaf(n) + leaf(n + 1) : leaf(n);
  }

  /** Classes that are loaded while the program runs have names, too. */
  static final class Late {
    static int work(int n) {
      return inner(n) ^ 5;
    }
  }

  static void round(int number) {
    for (int i = 0; i < 2000; ++i) {
      sum += inner(i);
    }
    sum += Late.work(number);
  }

  static void work() {
    for (int number = 1;; ++number) {
      round(number);
      System.out.println(number);
    }
  }

  public static void main(String[] arguments) {
    work();
  }
}
