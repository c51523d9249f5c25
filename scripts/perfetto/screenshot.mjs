// SPDX-License-Identifier: Apache-2.0
// Takes a picture of a trace in the Perfetto UI:
//
//     node scripts/perfetto/screenshot.mjs TRACE PICTURE.png [--start NS --duration NS] [--thread REGEX]…
//         [--width PX] [--height PX]
//
// Shows the time from --start on (as in the trace, ns), and the tracks whose names match, in that order; a
// thread's is `name tid`. By default all of the trace.
//
//     node scripts/perfetto/screenshot.mjs demo.pftrace demo.png --thread '^main ' --thread '^notes-sync '

import fs from 'node:fs';
import { parseArgs } from 'node:util';
import { TIMEOUT, photograph, setup } from './browser.mjs';

async function main() {
    const { values, positionals } = parseArgs({
        allowPositionals: true,
        options: {
            start: { type: 'string' },
            duration: { type: 'string' },
            thread: { type: 'string', multiple: true, default: [] },
            width: { type: 'string', default: '1440' },
            height: { type: 'string', default: '810' },
        },
    });
    const [trace, picture] = positionals;
    if (!picture) throw new Error('usage: screenshot.mjs TRACE PICTURE.png [--start NS --duration NS] [--thread REGEX]…');
    if (!fs.existsSync(trace)) throw new Error(`${trace} does not exist`);

    const [folder, modules, executablePath] = setup(new URL('setup', import.meta.url), '--browser');
    const name = '/hindsight-trace';
    const flags = ['--disable-gpu'];
    const { width, height } = values;
    await photograph({ modules, executablePath, flags, folder, name, trace, width, height, picture }, async (page, address) => {
        const parameters = new URLSearchParams({ url: address + name, hideSidebar: 'true' });
        await page.goto(`${address}/#!/?${parameters}`, { waitUntil: 'domcontentloaded', timeout: TIMEOUT });
        await page.waitForFunction('window.app?.trace', { timeout: TIMEOUT });
        await page.evaluate('window.waitForPerfettoIdle()');
        // In the page: the UI's own commands, and its timeline.
        await page.evaluate(async (threads, start, duration) => {
            const { trace } = window.app;
            const run = (command, ...args) => trace.commands.runCommand(`dev.perfetto.${command}`, ...args);
            if (threads.length) {
                await run('CreateWorkspace', 'Hindsight');
                for (const thread of threads) await run('CopyTracksToWorkspaceByRegex', thread, 'Hindsight');
                await run('SwitchWorkspace', 'Hindsight');
            }
            await run('ExpandTracksByRegex', '.*');
            if (start && duration) {
                trace.timeline.setViewportTime(BigInt(start), BigInt(start) + BigInt(duration));
            }
            await window.waitForPerfettoIdle();
        }, values.thread, values.start, values.duration);
    });
}

try {
    await main();
} catch (e) {
    console.error(`screenshot.mjs: ${e.message}`);
    process.exit(1);
}
