// SPDX-License-Identifier: Apache-2.0
// Shared by the checks in JavaScript. Each is started as `node CHECK.mjs FOLDER…`, with folders written by
// host/export/examples/readers.rs.

import fs from 'node:fs';
import path from 'node:path';

/** Exit code of failed checks; a reader that crashes has another. */
const CHECKS_FAILED = 3;

/** The decoder's results for a folder's trace. */
export function readExpected(folder) {
    return JSON.parse(fs.readFileSync(path.join(folder, 'expected.json'), 'utf8'));
}

/** For each call chain of a thread, as JSON of its names: number of calls, total time, self time, ns. */
export function chains(thread) {
    const byPath = new Map();
    const paths = [];
    for (const call of thread.calls) {
        const above = call.parent === null ? [] : paths[call.parent];
        const names = [...above, call.name];
        paths.push(names);
        const key = JSON.stringify(names);
        const chain = byPath.get(key) ?? { calls: 0, total: 0, self: 0 };
        byPath.set(key, chain);
        const duration = call.end - call.start;
        chain.calls += 1;
        chain.total += duration;
        chain.self += duration;
        if (above.length) byPath.get(JSON.stringify(above)).self -= duration;
    }
    return byPath;
}

export function same(what, expected, got) {
    const [e, g] = [JSON.stringify(expected), JSON.stringify(got)];
    if (e !== g) throw new Error(`${what}: the decoder says ${e.slice(0, 300)}, the reader says ${g?.slice(0, 300)}`);
}

/** Compares two maps with numbers as values; sums in floating point may be a nanosecond off. */
export function sameNumbers(what, expected, got, tolerance = 1) {
    for (const [key, value] of expected) {
        if (Math.abs(value - (got.get(key) ?? NaN)) <= tolerance) continue;
        throw new Error(`${what}: ${key}: the decoder says ${value}, the reader says ${got.get(key)}`);
    }
    for (const key of got.keys()) {
        if (!expected.has(key)) throw new Error(`${what}: the reader has ${key}, the decoder has not`);
    }
}

/** Runs `check(folder, expected)`, which returns its counts, for each folder. */
export async function run(reader, check) {
    let failed = 0;
    for (const folder of process.argv.slice(2)) {
        const name = `${reader}: ${path.basename(folder)}`;
        try {
            console.log(`ok      ${name}: ${await check(folder, readExpected(folder))}`);
        } catch (e) {
            failed += 1;
            console.log(`FAILED  ${name}: ${e.stack}`);
        }
    }
    process.exit(failed ? CHECKS_FAILED : 0);
}
