// SPDX-License-Identifier: Apache-2.0
// speedscope's own importer reads its format, and folded stacks:
//
//     READERS_MODULES=… node speedscope.mjs FOLDER…
//
// speedscope is published as a web page only. Its bundle is run here without a page, up to where it has
// defined its importer; that is taken out of it.

import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';
import { chains, run, same, sameNumbers } from './common.mjs';

function loadImporter(modules) {
    const folder = path.join(modules, 'node_modules/speedscope/dist/release');
    const bundle = fs.readdirSync(folder).find((name) => /^speedscope-.*\.js$/.test(name));
    const source = fs.readFileSync(path.join(folder, bundle), 'utf8');
    // `var NAME=Promise.resolve().then(()=>(INITIALIZE(),EXPORTS))` is where the page loads its importer.
    const exportsOf = /(\w+)=\{\};[\w$]+\(\1,\{importFromFileSystemDirectoryEntry/.exec(source)?.[1];
    const load = exportsOf && new RegExp(`var [\\w$]+=Promise\\.resolve\\(\\)\\.then\\(\\(\\)=>\\(([\\w$]+)\\(\\),${exportsOf}\\)\\)`)
        .exec(source);
    if (!load) throw new Error(`${bundle} has no importer where it used to be; was the version changed?`);
    const patched = source.replace(load[0], `globalThis.importer=()=>(${load[1]}(),${exportsOf});${load[0]}`);
    const page = new Proxy(function () {}, {
        get: (_, key) => (key === Symbol.toPrimitive ? () => '' : page), apply: () => page, construct: () => page,
    });
    const scope = { console: { ...console, log() {} }, TextDecoder, TextEncoder, URL, atob, btoa, setTimeout, clearTimeout, performance,
        document: page, navigator: { userAgent: 'Node' }, location: { hash: '', protocol: 'http:', href: 'http://x/' },
        localStorage: {}, addEventListener() {}, requestAnimationFrame() {}, matchMedia: () => page };
    scope.window = scope;
    scope.globalThis = scope;
    scope.self = scope;
    vm.createContext(scope);
    try {
        vm.runInContext(patched, scope, { filename: bundle });
    } catch (e) {
        if (!scope.importer) throw e;
    }
    return scope.importer();
}

const importer = loadImporter(process.env.READERS_MODULES);

async function read(file) {
    const bytes = fs.readFileSync(file);
    const group = await importer.importProfilesFromArrayBuffer(path.basename(file),
        bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
    if (!group) throw new Error(`${file}: speedscope does not know what this is`);
    return group;
}

/** Each call, in the order of time: name, depth, begin and end after `epoch`. */
function timeline(profile) {
    const calls = [], open = [];
    profile.forEachCall(
        (node, value) => {
            const call = [node.frame.name, open.length, value, null];
            open.push(call);
            calls.push(call);
        },
        (_, value) => { open.pop()[3] = value; });
    if (open.length) throw new Error('calls are left open');
    return calls;
}

run('speedscope', async (folder, expected) => {
    const epoch = Math.min(...expected.threads.map((t) => t.start));
    const group = await read(path.join(folder, 't.speedscope.json'));
    same('threads', expected.threads.map((t) => t.label), group.profiles.map((p) => p.getName()));
    let calls = 0;
    expected.threads.forEach((thread, i) => {
        const profile = group.profiles[i];
        same('unit', 'nanoseconds', profile.getWeightUnit());
        // It leaves out what took no time.
        const wanted = thread.calls.filter((c) => c.end > c.start)
            .map((c) => [c.name, c.depth, c.start - epoch, c.end - epoch]);
        const got = timeline(profile);
        wanted.forEach((call, j) => same(`call ${j} of ${thread.name}`, call, got[j]));
        same(`calls of ${thread.name}`, wanted.length, got.length);
        calls += got.length;
    });

    // Folded stacks have no order: what each chain itself took is what there is.
    const plain = (name) => name.replace(/[;\n\r]/g, ',');
    const wanted = new Map();
    for (const thread of expected.threads) {
        for (const [key, { self }] of chains(thread)) {
            const names = [thread.label, ...JSON.parse(key)].map(plain);
            if (self) wanted.set(JSON.stringify(names), self);
        }
    }
    const got = new Map();
    const [folded] = (await read(path.join(folder, 't.folded'))).profiles;
    const visit = (node, above) => {
        for (const child of node.children) {
            const names = [...above, child.frame.name];
            if (child.getSelfWeight()) got.set(JSON.stringify(names), child.getSelfWeight());
            visit(child, names);
        }
    };
    visit(folded.getAppendOrderCalltreeRoot(), []);
    sameNumbers('folded stacks', wanted, got, 0);
    return `${calls} calls one by one, ${wanted.size} folded stacks`;
});
