// SPDX-License-Identifier: Apache-2.0

import java.io.BufferedReader;
import java.io.InputStreamReader;

/**
 * The matrix multiplication of the Hubble paper (OSDI 2022, Figure 6): matrices of ints, in tiles, and each multiplication
 * with its addition in a method of its own, which ends in a call of itself that never happens.
 *
 * <p>{@code SIZE}: prints {@code ready}, then reads lines with the size of a tile and the number of the result's rows to compute,
 * computes them, and prints a sum of the result, until its input ends.
 */
public final class Matrix {
    /** Always 0. Not a constant, so that no compiler knows it. */
    private static int again;

    private Matrix() {}

    public static void main(String[] arguments) throws Exception {
        int size = Integer.parseInt(arguments[0]);
        int[] left = new int[size * size];
        int[] right = new int[size * size];
        for (int i = 0; i < left.length; i++) {
            left[i] = i * 31 % 17;
            right[i] = i * 37 % 19;
        }
        System.out.println("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            int rows = Integer.parseInt(words[1]);
            int[] result = new int[rows * size];
            multiply(size, Integer.parseInt(words[0]), rows, left, right, result);
            int sum = 0;
            for (int value : result) {
                sum = sum * 31 + value;
            }
            System.out.println(sum);
        }
    }

    private static void multiply(int size, int tile, int rows, int[] left, int[] right, int[] result) {
        for (int i0 = 0; i0 < rows; i0 += tile) {
            int i1 = Math.min(i0 + tile, rows);
            for (int k0 = 0; k0 < size; k0 += tile) {
                int k1 = Math.min(k0 + tile, size);
                for (int j0 = 0; j0 < size; j0 += tile) {
                    int j1 = Math.min(j0 + tile, size);
                    multiplyTile(size, i0, i1, k0, k1, j0, j1, left, right, result);
                }
            }
        }
    }

    private static void multiplyTile(int size, int i0, int i1, int k0, int k1, int j0, int j1, int[] left, int[] right,
            int[] result) {
        int never = again;
        for (int i = i0; i < i1; i++) {
            for (int k = k0; k < k1; k++) {
                int factor = left[i * size + k];
                for (int j = j0; j < j1; j++) {
                    result[i * size + j] = add(result[i * size + j], factor, right[k * size + j], never);
                }
            }
        }
    }

    private static int add(int sum, int a, int b, int times) {
        int more = sum + a * b;
        return times > 0 ? add(more, a, b, times - 1) : more;
    }
}
