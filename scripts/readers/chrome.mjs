// SPDX-License-Identifier: Apache-2.0
// Perfetto's trace processor, which also reads Chrome's own traces, reads the Chrome JSON:
//
//     node chrome.mjs FOLDER…

import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { run, same } from './common.mjs';
import { TraceProcessor } from '../perfetto/trace_processor.mjs';

/** Levels of a track; deeper calls have depth 0 in the reader. */
const MAX_DEPTH = 512;
const setup = fileURLToPath(new URL('../perfetto/setup', import.meta.url));
const ui = execFileSync(setup, { stdio: ['ignore', 'pipe', 'inherit'], encoding: 'utf8' }).trim();

run('Chrome JSON in Perfetto', async (folder, expected) => {
    const processor = await TraceProcessor.start(ui);
    await processor.open(path.join(folder, 't.chrome.json'));
    const lost = await processor.query(`select name, value from stats where value > 0
        and severity in ('error', 'data_loss')`);
    same('errors', [], lost);
    const threads = await processor.query('select tid, name from thread where tid != 0 order by tid');
    // A second recording of a thread id has an id that is no thread's, and its own in its name.
    const seen = new Set(), kernelIds = 1 << 22;
    const shown = expected.threads.map(({ tid, name, label }) => {
        const isFirst = !seen.has(tid);
        seen.add(tid);
        return { tid: isFirst ? tid : null, name: isFirst ? name : label };
    });
    const byName = (a, b) => (a[1] < b[1] ? -1 : Number(a[1] > b[1]));
    same('threads', shown.map((t) => [t.tid, t.name]).sort(byName),
        threads.map((t) => [t.tid > kernelIds ? null : t.tid, t.name]).sort(byName));
    const rows = await processor.query(`select thread.name as thread, s.name, s.ts, s.dur, s.depth,
            extract_arg(s.arg_set_id, 'args.end') as end, extract_arg(s.arg_set_id, 'args.left by') as left_by
        from slice s join thread_track t on s.track_id = t.id join thread using (utid)
        where coalesce(s.category, '') <> 'hindsight'`);
    // Of two calls that took no time at the same time, the reader takes the first for the caller of the second.
    const level = (depth, duration) => (duration ? depth : null);
    const key = (call) => JSON.stringify(call);
    const wanted = expected.threads.flatMap((t, i) => t.calls.map((c) => key(
        [shown[i].name, c.name, c.start, c.runs ? -1 : c.end - c.start, level(c.depth < MAX_DEPTH ? c.depth : 0, c.end - c.start), c.open_end ? 'not seen' : null,
            c.by_exception ? 'exception' : null]))).sort();
    const got = rows.map((r) => key(
        [r.thread, r.name, r.ts, r.dur, level(r.depth, r.dur), r.end, r.left_by])).sort();
    wanted.forEach((call, i) => same(`call ${i}`, call, got[i]));
    same('calls', wanted.length, got.length);
    const [{ flows }] = await processor.query('select count(*) as flows from flow');
    return `${got.length} calls one by one, ${flows} flows`;
});
