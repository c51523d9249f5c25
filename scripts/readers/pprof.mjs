// SPDX-License-Identifier: Apache-2.0
// Go's pprof reads the profile:
//
//     node pprof.mjs FOLDER…

import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { chains, run, same, sameNumbers } from './common.mjs';

run('pprof', (folder, expected) => {
    const raw = execFileSync('go', ['tool', 'pprof', '-raw', path.join(folder, 't.pb.gz')],
        { encoding: 'utf8', maxBuffer: 1 << 30, stdio: ['ignore', 'pipe', 'pipe'] });
    const [head, rest] = raw.split(/^Samples:\n/m);
    const [samples, locations] = rest.split(/^Locations\n/m);
    same('process', true, head.includes(`process: ${expected.process} (${expected.pid})`));
    const [types, ...lines] = samples.trimEnd().split('\n');
    same('values', 'calls/count time/nanoseconds[dflt]', types);
    const names = new Map();
    for (const line of locations.split(/^Mappings\n/m)[0].trimEnd().split('\n')) {
        const [, id, name] = /^\s*(\d+): 0x0 M=\d+ (.*) \S*:0 s=0(?:\(.*\))?$/.exec(line);
        names.set(id, name);
    }
    const calls = new Map(), times = new Map();
    let sample;
    for (const line of lines) {
        const values = /^\s*(\d+)\s+(\d+): ([\d ]+)$/.exec(line);
        if (values) {
            sample = { calls: Number(values[1]), ns: Number(values[2]), stack: values[3].trim().split(' ') };
            continue;
        }
        const thread = /^\s*thread:\[(.*)\]$/.exec(line);
        if (thread) sample.thread = thread[1];
        const tid = /^\s*tid:\[(\d+)\]$/.exec(line);
        if (!tid) continue;
        const key = JSON.stringify([sample.thread, tid[1], ...sample.stack.map((id) => names.get(id)).reverse()]);
        calls.set(key, sample.calls);
        times.set(key, sample.ns);
    }
    const wantedCalls = new Map(), wantedTimes = new Map();
    for (const thread of expected.threads) {
        for (const [chain, { calls, self }] of chains(thread)) {
            const name = thread.label.replace(` (${thread.tid})`, '');
            const key = JSON.stringify([name, String(thread.tid), ...JSON.parse(chain)]);
            wantedCalls.set(key, calls);
            wantedTimes.set(key, self);
        }
    }
    sameNumbers('calls', wantedCalls, calls, 0);
    sameNumbers('self times', wantedTimes, times, 0);
    return `${calls.size} chains of calls with their counts and times`;
});
