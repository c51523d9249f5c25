// SPDX-License-Identifier: Apache-2.0

import dalvik.system.VMDebug;
import dev.hindsight.Hindsight;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;

/**
 * Measures {@link Listing1} on request: reads commands from standard input, and answers each with one line of
 * JSON. So one process of each variant of ART stays warm, and the measurements of all variants are interleaved. Named {@code Main} because ART's test library registers its natives for that class.
 *
 * <p>Commands: {@code measure WORK RECURSIONS}; {@code method-trace FILE} (starts ART's own tracer);
 * {@code persist REASON} (saves Hindsight's rings).
 */
public final class Main {
    private static final int METHOD_TRACE_BUFFER_BYTES = 256 << 20;

    private Main() {}

    public static void main(String[] args) throws IOException {
        System.loadLibrary("arttest");
        boolean jit = args.length == 0 || !args[0].equals("--no-jit");
        if (jit) {
            ensureJitCompiled(Listing1.class, "recurse");
            ensureJitCompiled(Listing1.class, "repeat");
        }
        System.out.println("{\"ready\":true,\"jit\":" + jit + ",\"compiled\":"
                + hasJitCompiledEntrypoint(Listing1.class, "recurse") + ",\"tracing\":" + Hindsight.isTracing()
                + "}");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(answer(line.split(" ")));
        }
    }

    private static String answer(String[] command) {
        switch (command[0]) {
            case "measure":
                return measure(Integer.parseInt(command[1]), Integer.parseInt(command[2]));
            case "method-trace":
                VMDebug.startMethodTracing(command[1], METHOD_TRACE_BUFFER_BYTES, 0, false, 0);
                return "{\"method_tracing\":true}";
            case "snapshot":
                return saved(Hindsight.anomaly(command[1]));
            default:
                return "{\"error\":\"unknown command " + command[0] + "\"}";
        }
    }

    private static String saved(String file) {
        return "{\"file\":" + (file == null ? "null" : '"' + file + '"') + "}";
    }

    private static String measure(int work, int recursions) {
        long start = System.nanoTime();
        int result = Listing1.repeat(recursions, work);
        long end = System.nanoTime();
        return "{\"work\":" + work + ",\"calls\":" + (long) recursions * Listing1.DEPTH + ",\"ns\":"
                + (end - start) + ",\"result\":" + result + "}";
    }

    // Natives of libarttest.
    private static native void ensureJitCompiled(Class<?> type, String method);

    private static native boolean hasJitCompiledEntrypoint(Class<?> type, String method);
}
