// SPDX-License-Identifier: Apache-2.0
// Commons Math: matrices, a Fourier transform, a differential equation, a root, statistics.
// Prints: 12 64 100 14142 5000

import org.apache.commons.math3.analysis.solvers.BrentSolver;
import org.apache.commons.math3.complex.Complex;
import org.apache.commons.math3.linear.Array2DRowRealMatrix;
import org.apache.commons.math3.linear.ArrayRealVector;
import org.apache.commons.math3.linear.EigenDecomposition;
import org.apache.commons.math3.linear.LUDecomposition;
import org.apache.commons.math3.linear.RealMatrix;
import org.apache.commons.math3.linear.RealVector;
import org.apache.commons.math3.ode.FirstOrderDifferentialEquations;
import org.apache.commons.math3.ode.nonstiff.ClassicalRungeKuttaIntegrator;
import org.apache.commons.math3.stat.descriptive.DescriptiveStatistics;
import org.apache.commons.math3.transform.DftNormalization;
import org.apache.commons.math3.transform.FastFourierTransformer;
import org.apache.commons.math3.transform.TransformType;

public class CommonsMath {
    private static final int SIZE = 12;

    /** The eigenvalues of a symmetric matrix, and the solution of a system with it: how many are right. */
    private static int matrices() {
        RealMatrix matrix = new Array2DRowRealMatrix(SIZE, SIZE);
        for (int i = 0; i < SIZE; i++) {
            for (int j = 0; j < SIZE; j++) {
                matrix.setEntry(i, j, i == j ? SIZE + i : 1.0 / (1 + Math.abs(i - j)));
            }
        }
        RealVector ones = new ArrayRealVector(SIZE, 1.0);
        RealVector solution = new LUDecomposition(matrix).getSolver().solve(matrix.operate(ones));
        EigenDecomposition eigen = new EigenDecomposition(matrix);
        int right = 0;
        for (int i = 0; i < SIZE; i++) {
            RealVector vector = eigen.getEigenvector(i);
            RealVector difference = matrix.operate(vector).subtract(vector.mapMultiply(eigen.getRealEigenvalue(i)));
            if (Math.abs(solution.getEntry(i) - 1) < 1e-9 && difference.getNorm() < 1e-9) {
                right++;
            }
        }
        return right;
    }

    /** How many values a Fourier transform and its inverse leave as they were. */
    private static int fourier() {
        double[] values = new double[64];
        for (int i = 0; i < values.length; i++) {
            values[i] = (i * 37) % 17;
        }
        FastFourierTransformer transformer = new FastFourierTransformer(DftNormalization.STANDARD);
        Complex[] back = transformer.transform(
                transformer.transform(values, TransformType.FORWARD), TransformType.INVERSE);
        int same = 0;
        for (int i = 0; i < values.length; i++) {
            if (Math.abs(back[i].getReal() - values[i]) < 1e-9) {
                same++;
            }
        }
        return same;
    }

    /** A circle, once around: how far from its start, in percent. */
    private static long circle() {
        FirstOrderDifferentialEquations equations = new FirstOrderDifferentialEquations() {
            @Override
            public int getDimension() {
                return 2;
            }

            @Override
            public void computeDerivatives(double t, double[] y, double[] derivatives) {
                derivatives[0] = -y[1];
                derivatives[1] = y[0];
            }
        };
        double[] y = {1, 0};
        new ClassicalRungeKuttaIntegrator(Math.PI / 100).integrate(equations, 0, y, 2 * Math.PI, y);
        return Math.round(y[0] * 100);
    }

    public static void main(String[] args) {
        double root = new BrentSolver(1e-9).solve(100, x -> x * x - 2, 0, 2);
        DescriptiveStatistics statistics = new DescriptiveStatistics();
        for (int i = 0; i <= 100; i++) {
            statistics.addValue((i * 37) % 101);
        }
        System.out.println(matrices() + " " + fourier() + " " + circle() + " " + (long) (root * 10000) + " "
                + Math.round(statistics.getPercentile(50) * 100));
    }
}
