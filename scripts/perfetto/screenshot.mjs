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

import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json',
    '.wasm': 'application/wasm', '.png': 'image/png', '.woff2': 'font/woff2' };
const TRACE = '/hindsight-trace';
const TIMEOUT = 300_000;

/** Serves the UI and the trace to this machine only. */
async function serve(ui, trace) {
    const server = http.createServer((request, response) => {
        const wanted = new URL(request.url, 'http://localhost').pathname;
        const file = wanted === TRACE ? trace : path.join(ui, path.normalize(wanted === '/' ? '/index.html' : wanted));
        fs.readFile(file, (error, bytes) => {
            if (error) {
                response.writeHead(404).end();
                return;
            }
            response.writeHead(200, { 'Content-Type': TYPES[path.extname(file)] ?? 'application/octet-stream' });
            response.end(bytes);
        });
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    return server;
}

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

    const setup = execFileSync(fileURLToPath(new URL('setup', import.meta.url)), ['--browser'],
        { stdio: ['ignore', 'pipe', 'inherit'], encoding: 'utf8' });
    const [ui, modules, executablePath] = setup.trim().split('\n');
    const puppeteer = createRequire(path.join(modules, 'package.json'))('puppeteer-core');
    const server = await serve(ui, path.resolve(trace));
    const userDataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'hindsight-chromium-'));
    const browser = await puppeteer.launch({
        executablePath,
        userDataDir,
        args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
            '--disable-background-networking', '--disable-component-update', '--disable-sync', '--hide-scrollbars'],
    });
    try {
        const page = await browser.newPage();
        await page.setViewport({ width: Number(values.width), height: Number(values.height), deviceScaleFactor: 1 });
        const origin = `http://127.0.0.1:${server.address().port}`;
        const parameters = new URLSearchParams({ url: origin + TRACE, hideSidebar: 'true' });
        page.on('pageerror', (e) => console.error(`screenshot.mjs: the UI says: ${e}`));
        await page.goto(`${origin}/#!/?${parameters}`, { waitUntil: 'domcontentloaded', timeout: TIMEOUT });
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
        await page.screenshot({ path: picture });
    } finally {
        await browser.close();
        server.close();
        fs.rmSync(userDataDir, { recursive: true, force: true });
    }
}

try {
    await main();
} catch (e) {
    console.error(`screenshot.mjs: ${e.message}`);
    process.exit(1);
}
