// SPDX-License-Identifier: Apache-2.0
// Runs SQL on a trace with Perfetto's own trace processor, and prints the rows as JSON:
//
//     node scripts/perfetto/query.mjs demo.pftrace 'select name, dur from slice order by dur desc limit 3'
//
// Without SQL, statements come from standard input, one a line, and each answer is one line.

import { execFileSync } from 'node:child_process';
import readline from 'node:readline';
import { fileURLToPath } from 'node:url';
import { TraceProcessor } from './trace_processor.mjs';

const [file, sql] = process.argv.slice(2);
if (!file) {
    console.error('usage: node query.mjs TRACE [SQL]');
    process.exit(2);
}
// Node would print the source of the engine, one line of 150 kB.
process.on('uncaughtException', (e) => {
    console.error(`query.mjs: ${e.stack.slice(-1000)}`);
    process.exit(1);
});
try {
    const setup = fileURLToPath(new URL('setup', import.meta.url));
    const ui = execFileSync(setup, { stdio: ['ignore', 'pipe', 'inherit'], encoding: 'utf8' }).trim();
    const processor = await TraceProcessor.start(ui);
    await processor.open(file);
    if (sql) {
        console.log(JSON.stringify(await processor.query(sql), null, 1));
    } else {
        for await (const line of readline.createInterface({ input: process.stdin })) {
            if (line.trim()) console.log(JSON.stringify(await processor.query(line)));
        }
    }
    process.exit(0);
} catch (e) {
    console.error(`query.mjs: ${e.message}`);
    process.exit(1);
}
