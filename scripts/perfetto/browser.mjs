// SPDX-License-Identifier: Apache-2.0
// Shared by the scripts that take pictures: a folder served on the loopback interface, and headless Chromium.

import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json',
    '.wasm': 'application/wasm', '.png': 'image/png', '.woff2': 'font/woff2' };

/** Time limit of one step of a page, ms. */
export const TIMEOUT = 300_000;

/** The lines that a setup script prints. */
export function setup(script, ...options) {
    return execFileSync(fileURLToPath(script), options, { stdio: ['ignore', 'pipe', 'inherit'], encoding: 'utf8' })
        .trim().split('\n');
}

/** Serves `folder`, and the file `trace` under the name `name`, at a free port of the loopback interface. */
async function serve(folder, name, trace) {
    const server = http.createServer((request, response) => {
        const wanted = new URL(request.url, 'http://localhost').pathname;
        const file = wanted === name ? trace : path.join(folder, path.normalize(wanted === '/' ? '/index.html' : wanted));
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

/**
 * Calls `show(page, address)` with a page of `width` by `height` pixels, where `folder` is served at `address`
 * and the file `trace` at `address` + `name`, then writes a picture of the page.
 */
export async function photograph({ modules, executablePath, flags, folder, name, trace, width, height, picture }, show) {
    const puppeteer = createRequire(path.join(modules, 'package.json'))('puppeteer-core');
    const server = await serve(folder, name, path.resolve(trace));
    const userDataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'hindsight-chromium-'));
    try {
        const browser = await puppeteer.launch({
            executablePath,
            userDataDir,
            args: ['--headless', '--no-sandbox', '--disable-quic', '--no-first-run', '--disable-background-networking',
                '--disable-component-update', '--disable-sync', '--hide-scrollbars', ...flags],
        });
        try {
            const page = await browser.newPage();
            await page.setViewport({ width: Number(width), height: Number(height), deviceScaleFactor: 1 });
            page.on('pageerror', (e) => console.error(`screenshot.mjs: the page says: ${e}`));
            await show(page, `http://127.0.0.1:${server.address().port}`);
            await page.screenshot({ path: picture });
        } finally {
            await browser.close();
        }
    } finally {
        server.close();
        fs.rmSync(userDataDir, { recursive: true, force: true });
    }
}
