// SPDX-License-Identifier: Apache-2.0
// Takes a picture of a trace in speedscope:
//
//     node scripts/readers/screenshot.mjs TRACE.speedscope.json PICTURE.png [--view time|left|sandwich]
//         [--profile N] [--width PX] [--height PX]
//
// For the Perfetto UI there is scripts/perfetto/screenshot.mjs. Needs Chromium.

import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { TIMEOUT, photograph, setup } from '../perfetto/browser.mjs';

/** Keys that choose a view. */
const VIEWS = { time: '1', left: '2', sandwich: '3' };

async function main() {
    const { values, positionals } = parseArgs({
        allowPositionals: true,
        options: {
            view: { type: 'string', default: 'time' },
            profile: { type: 'string', default: '0' },
            width: { type: 'string', default: '1440' },
            height: { type: 'string', default: '540' },
        },
    });
    const [trace, picture] = positionals;
    if (!picture || !VIEWS[values.view]) {
        throw new Error('usage: screenshot.mjs TRACE.speedscope.json PICTURE.png [--view time|left|sandwich] …');
    }
    if (!fs.existsSync(trace)) throw new Error(`${trace} does not exist`);
    const [readers] = setup(new URL('setup', import.meta.url));
    const [, modules, executablePath] = setup(new URL('../perfetto/setup', import.meta.url), '--browser');
    const folder = path.join(readers, 'node_modules/speedscope/dist/release');
    const name = '/trace.json';
    const flags = ['--enable-unsafe-swiftshader'];
    const { width, height } = values;
    await photograph({ modules, executablePath, flags, folder, name, trace, width, height, picture }, async (page, address) => {
        const parameters = new URLSearchParams({ profileURL: address + name, title: path.basename(trace) });
        await page.goto(`${address}/#${parameters}`, { waitUntil: 'load', timeout: TIMEOUT });
        // The landing page has a paragraph, the view of a profile has none.
        await page.waitForFunction(
            () => document.querySelector('canvas') && !document.querySelector('p') && document.body.innerText.includes('Time Order'),
            { timeout: TIMEOUT });
        for (let i = 0; i < Number(values.profile); i++) await page.keyboard.press('n');
        await page.keyboard.press(VIEWS[values.view]);
        // Two frames later it has been drawn.
        await page.evaluate(() => new Promise((resolve) => {
            requestAnimationFrame(() => requestAnimationFrame(resolve));
        }));
    });
}

try {
    await main();
} catch (e) {
    console.error(`screenshot.mjs: ${e.message}`);
    process.exit(1);
}
