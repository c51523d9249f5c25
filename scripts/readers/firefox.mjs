// SPDX-License-Identifier: Apache-2.0
// The Firefox Profiler's own loader reads its format, through its command line, profiler-cli:
//
//     READERS_MODULES=… node firefox.mjs FOLDER…

import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { chains, run, same, sameNumbers } from './common.mjs';

const program = path.join(process.env.READERS_MODULES, 'node_modules/@firefox-devtools/profiler-cli/dist/profiler-cli.js');
/** It keeps sessions and their sockets in the home folder, whose path must be short for that. */
const home = fs.mkdtempSync(path.join(os.tmpdir(), 'hs-ff-'));
const env = { ...process.env, HOME: home };
const SESSION = 'check';
/** Number of times that a loader which is still starting is asked. */
const ATTEMPTS = 200;

function ask(...command) {
    const answer = execFileSync(process.execPath, [program, ...command, '--session', SESSION, '--json'],
        { env, encoding: 'utf8', maxBuffer: 1 << 30, stdio: ['ignore', 'pipe', 'pipe'] });
    return JSON.parse(answer);
}

function load(file) {
    const load = spawnSync(process.execPath, [program, 'load', file, '--session', SESSION], { env, encoding: 'utf8' });
    if (load.status === 0) return;
    // It waits half a second for its own server, too short on a busy machine.
    if (!load.stderr.includes('did not become ready')) throw new Error(load.stderr);
    for (let attempt = 1; ; attempt++) {
        try {
            ask('status');
            return;
        } catch (e) {
            if (attempt === ATTEMPTS) throw e;
        }
    }
}

const ns = (ms) => ms * 1e6;

/** Total and self time of each method, ns; a method that calls itself counts once. */
function methods(thread) {
    const total = new Map(), self = new Map();
    const add = (map, key, value) => map.set(key, (map.get(key) ?? 0) + value);
    const running = [];
    for (const call of thread.calls) {
        running.length = call.depth;
        const duration = call.end - call.start;
        if (!running.includes(call.name)) add(total, call.name, duration);
        add(self, call.name, duration);
        if (call.parent !== null) add(self, thread.calls[call.parent].name, -duration);
        running.push(call.name);
    }
    for (const name of [...total.keys()]) {
        if (!total.get(name)) total.delete(name);
        if (!total.has(name)) self.delete(name);
    }
    return { total, self };
}

function check(folder, expected) {
    load(path.resolve(folder, 't.firefox.json.gz'));
    try {
        const { threads } = ask('thread', 'list', '--limit', '0', '--sort', 'index');
        same('threads', expected.threads.map((t) => [t.tid, t.name, expected.process, String(expected.pid)]),
            threads.map((t) => [t.tid, t.name, t.processName, t.pid]));
        const meta = ask('profile', 'meta');
        const start = Math.min(...expected.threads.map((t) => t.start));
        const realtime = BigInt(expected.taken_realtime) - BigInt(expected.taken_boottime) + BigInt(start);
        if (Math.abs(meta.startTime - Number(realtime / 1000n) / 1000) > 0.01) throw new Error(`starts at ${meta.startTime}`);
        let nodes = 0, functions = 0, markers = 0;
        expected.threads.forEach((thread, i) => {
            const wanted = chains(thread);
            const total = [...wanted.values()].reduce((sum, chain) => sum + chain.self, 0);
            markers += threads[i].markerCount;
            if (!total) return;
            // Calls that took no time have no sample.
            const seen = [...wanted].filter(([, chain]) => chain.total > 0);
            const perMethod = methods(thread);
            const byTotal = new Map(), bySelf = new Map();
            const answer = ask('thread', 'functions', '--thread', threads[i].threadHandle, '--include-idle', '--limit', '0');
            same('weights', 'tracing-ms', answer.weightType);
            for (const f of answer.functions) {
                byTotal.set(f.name, ns(f.totalSamples));
                bySelf.set(f.name, ns(f.selfSamples));
            }
            sameNumbers(`total time in ${thread.name}`, perMethod.total, byTotal);
            sameNumbers(`self time in ${thread.name}`, perMethod.self, bySelf);

            // The command line limits the lines and levels of a tree.
            const tree = ask('thread', 'samples-top-down', '--thread', threads[i].threadHandle, '--include-idle',
                '--limit', '1000000');
            const totals = new Map(), selves = new Map();
            let leftOut = false;
            const visit = (node, above) => {
                leftOut ||= Boolean(node.childrenTruncated);
                for (const child of node.children) {
                    const names = [...above, child.name];
                    const key = JSON.stringify(names);
                    totals.set(key, ns(child.totalSamples));
                    selves.set(key, ns(child.selfSamples));
                    visit(child, names);
                }
            };
            visit(tree.regularCallTree, []);
            const shown = leftOut ? seen.filter(([key]) => totals.has(key)) : seen;
            if (!shown.length) throw new Error(`${thread.name}: the reader shows no call`);
            sameNumbers(`total time of chains of ${thread.name}`, new Map(shown.map(([k, c]) => [k, c.total])), totals);
            sameNumbers(`self time of chains of ${thread.name}`, new Map(shown.map(([k, c]) => [k, c.self])), selves);
            nodes += shown.length;
            functions += perMethod.total.size;
        });
        return `${functions} methods and ${nodes} chains of calls with their times, ${markers} markers`;
    } finally {
        spawnSync(process.execPath, [program, 'stop', SESSION], { env });
    }
}

process.on('exit', () => fs.rmSync(home, { recursive: true, force: true }));
await run('Firefox Profiler', check);
