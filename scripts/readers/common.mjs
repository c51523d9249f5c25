// SPDX-License-Identifier: Apache-2.0
// What the checks of readers in JavaScript share. Each is started as `node CHECK.mjs FOLDER…`, with folders
// as host/export/examples/readers.rs writes them.

import fs from 'node:fs';
import path from 'node:path';

/** Exit code, other than that of a reader that broke down. */
const CHECKS_FAILED = 3;

/** What the decoder says of a folder's trace. */
export function readExpected(folder) {
    return JSON.parse(fs.readFileSync(path.join(folder, 'expected.json'), 'utf8'));
}

/** For each chain of calls of a thread, as JSON of its names: how often, how long in all, how long in itself, ns. */
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

/** Compares two maps whose values are numbers; sums in floating point may be a nanosecond off. */
export function sameNumbers(what, expected, got, tolerance = 1) {
    for (const [key, value] of expected) {
        if (Math.abs(value - (got.get(key) ?? NaN)) <= tolerance) continue;
        throw new Error(`${what}: ${key}: the decoder says ${value}, the reader says ${got.get(key)}`);
    }
    for (const key of got.keys()) {
        if (!expected.has(key)) throw new Error(`${what}: the decoder doesn't know ${key}, the reader does`);
    }
}

/** Runs `check(folder, expected)`, which returns what it compared, for each folder. */
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
