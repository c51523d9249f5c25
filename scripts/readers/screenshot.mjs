// SPDX-License-Identifier: Apache-2.0
// Takes a picture of a trace in speedscope:
//
//     node scripts/readers/screenshot.mjs TRACE.speedscope.json PICTURE.png [--view time|left|sandwich]
//         [--profile N] [--width PX] [--height PX]
//
// For the Perfetto UI there is scripts/perfetto/screenshot.mjs. Needs Chromium.

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
const TIMEOUT = 300_000;
/** Keys that choose a view. */
const VIEWS = { time: '1', left: '2', sandwich: '3' };

/** What a setup script prints, by lines. */
function setup(script, ...options) {
    const file = fileURLToPath(new URL(script, import.meta.url));
    return execFileSync(file, options, { stdio: ['ignore', 'pipe', 'inherit'], encoding: 'utf8' }).trim().split('\n');
}

/** Serves a folder, and the trace as /trace.json, to this machine only. */
async function serve(folder, trace) {
    const server = http.createServer((request, response) => {
        const wanted = new URL(request.url, 'http://localhost').pathname;
        const file = wanted === '/trace.json' ? trace
            : path.join(folder, path.normalize(wanted === '/' ? '/index.html' : wanted));
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
    const [readers] = setup('setup');
    const [, modules, executablePath] = setup('../perfetto/setup', '--browser');
    const puppeteer = createRequire(path.join(modules, 'package.json'))('puppeteer-core');
    const folder = path.join(readers, 'node_modules/speedscope/dist/release');
    const server = await serve(folder, path.resolve(trace));
    const userDataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'hindsight-chromium-'));
    const browser = await puppeteer.launch({
        executablePath,
        userDataDir,
        args: ['--headless', '--no-sandbox', '--disable-quic', '--no-first-run', '--enable-unsafe-swiftshader',
            '--disable-background-networking', '--disable-component-update', '--disable-sync', '--hide-scrollbars'],
    });
    try {
        const page = await browser.newPage();
        await page.setViewport({ width: Number(values.width), height: Number(values.height), deviceScaleFactor: 1 });
        page.on('pageerror', (e) => console.error(`screenshot.mjs: the page says: ${e}`));
        const origin = `http://127.0.0.1:${server.address().port}`;
        const parameters = new URLSearchParams({ profileURL: `${origin}/trace.json`, title: path.basename(trace) });
        await page.goto(`${origin}/#${parameters}`, { waitUntil: 'load', timeout: TIMEOUT });
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
