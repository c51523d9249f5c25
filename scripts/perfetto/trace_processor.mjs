// SPDX-License-Identifier: Apache-2.0
// Perfetto's trace processor, as the Perfetto UI runs it: a WebAssembly engine in a worker that answers remote procedure
// calls. Here the worker is this process. The calls are protobuf messages (Perfetto's
// protos/perfetto/trace_processor/trace_processor.proto); the few fields that are needed are written and read by hand.

import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';
import { webcrypto as crypto } from 'node:crypto';

const VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5;
const STREAM_MSG = 1;
const RPC = { seq: 1, fatalError: 5, request: 2, response: 3, appendData: 101, queryArgs: 103,
    appendResult: 201, queryResult: 203, finalizeResult: 212 };
const METHOD = { append: 1, finalize: 2, query: 3 };
const CELL = { null: 1, varint: 2, float64: 3, string: 4, blob: 5 };
/** Bytes of a trace in one call. */
const APPEND_BYTES = 8 << 20;
/** Times that an engine gets for its setup, ms, one per attempt; usually one turn of the event loop is enough. */
const PAUSES = [0, 200, 5000];

function varint(value) {
    let v = BigInt.asUintN(64, BigInt(value));
    const out = [];
    while (v >= 0x80n) {
        out.push(Number(v & 0x7fn) | 0x80);
        v >>= 7n;
    }
    out.push(Number(v));
    return Buffer.from(out);
}

function varintField(field, value) {
    return Buffer.concat([varint(field << 3 | VARINT), varint(value)]);
}

function bytesField(field, bytes) {
    return Buffer.concat([varint(field << 3 | BYTES), varint(bytes.length), bytes]);
}

/** Reads varints from a buffer. */
class Cursor {
    constructor(bytes) {
        this.bytes = bytes;
        this.at = 0;
    }

    get done() {
        return this.at >= this.bytes.length;
    }

    varint() {
        let value = 0n;
        for (let shift = 0n; ; shift += 7n) {
            const byte = this.bytes[this.at++];
            value |= BigInt(byte & 0x7f) << shift;
            if (byte < 0x80) return value;
        }
    }

    take(n) {
        this.at += n;
        return this.bytes.subarray(this.at - n, this.at);
    }

    /** Calls `visit(field, value)` for each field; values are BigInts or Buffers. */
    fields(visit) {
        while (!this.done) {
            const tag = Number(this.varint());
            const wire = tag & 7;
            let value;
            if (wire === VARINT) value = this.varint();
            else if (wire === BYTES) value = this.take(Number(this.varint()));
            else if (wire === FIXED64) value = this.take(8);
            else if (wire === FIXED32) value = this.take(4);
            else throw new Error(`wire type ${wire} in an answer of the trace processor`);
            visit(tag >> 3, value);
        }
    }
}

/** Numbers that JSON can hold stay numbers. */
function integer(value) {
    const signed = BigInt.asIntN(64, value);
    return Number.isSafeInteger(Number(signed)) ? Number(signed) : String(signed);
}

function readCells(batch, cells) {
    const types = [], integers = [], floats = [], blobs = [];
    let strings = [];
    new Cursor(batch).fields((field, value) => {
        if (field === 1) {
            const packed = new Cursor(value);
            while (!packed.done) types.push(Number(packed.varint()));
        } else if (field === 2) {
            const packed = new Cursor(value);
            while (!packed.done) integers.push(integer(packed.varint()));
        } else if (field === 3) {
            for (let i = 0; i < value.length; i += 8) floats.push(value.readDoubleLE(i));
        } else if (field === 4) {
            blobs.push(value.toString('base64'));
        } else if (field === 5) {
            strings = value.toString('utf8').split('\0');
        }
    });
    const next = { [CELL.varint]: integers, [CELL.float64]: floats, [CELL.string]: strings, [CELL.blob]: blobs };
    const at = {};
    for (const type of types) {
        if (type === CELL.null) {
            cells.push(null);
        } else {
            const i = at[type] ?? 0;
            at[type] = i + 1;
            cells.push(next[type][i]);
        }
    }
}

export class TraceProcessor {
    #answers = [];
    #wake = () => {};
    #port;
    #seq = 0;
    /** The engine's own class; it accepts no other. */
    #uint8Array;

    /** Starts the engine of the UI in `ui`. */
    static async start(ui) {
        const version = fs.readdirSync(ui).find((name) => /^v\d/.test(name));
        if (!version) throw new Error(`${ui} is not a Perfetto UI: it has no folder for a version`);
        // The engine does not report that it is ready, and does not recover from a question that comes too early.
        for (const pause of PAUSES) {
            try {
                const processor = new TraceProcessor();
                await processor.#load(path.join(ui, version), pause);
                return processor;
            } catch (e) {
                if (pause === PAUSES.at(-1)) throw e;
            }
        }
    }

    async #load(folder, pause) {
        const wasm = (name) => path.join(folder, path.basename(String(name)));
        // Globals of a worker that Node lacks, or has in another form.
        const scope = {
            console: { ...console, log() {}, warn() {} },
            location: { href: 'http://localhost/engine_bundle.js', origin: 'http://localhost' },
            WorkerGlobalScope: class {},
            importScripts() {},
            fetch: async (url) => new Response(fs.readFileSync(wasm(url)),
                { headers: { 'Content-Type': 'application/wasm' } }),
            XMLHttpRequest: class {
                open(_method, url) { this.url = url; }
                send() {
                    this.status = 200;
                    this.response = Uint8Array.from(fs.readFileSync(wasm(this.url))).buffer;
                }
            },
            TextDecoder, TextEncoder, URL, Response, performance,
            setTimeout, clearTimeout, setInterval, clearInterval, queueMicrotask, crypto,
        };
        scope.self = scope;
        scope.globalThis = scope;
        vm.createContext(scope);
        const bundle = path.join(folder, 'engine_bundle.js');
        vm.runInContext(fs.readFileSync(bundle, 'utf8'), scope, { filename: bundle });
        if (typeof scope.onmessage !== 'function') throw new Error(`${bundle} did not start an engine`);
        this.#port = {
            onmessage: null,
            postMessage: (data) => {
                new Cursor(Buffer.from(data)).fields((field, message) => {
                    if (field === STREAM_MSG) this.#answers.push(Buffer.from(message));
                });
                this.#wake();
            },
        };
        scope.onmessage({ data: this.#port });
        this.#uint8Array = vm.runInContext('Uint8Array', scope);
        // The engine has been compiled by now, and sets itself up in promises: let them run.
        await new Promise((resolve) => setTimeout(resolve, pause));
        await this.query('select 1');
    }

    /** Sends one request; returns its answers up to the one for which `isLast` is true. */
    async #call(method, argument, isLast = () => true) {
        const message = Buffer.concat([varintField(RPC.seq, ++this.#seq), varintField(RPC.request, method), argument]);
        const framed = bytesField(STREAM_MSG, message);
        const before = this.#answers.length;
        this.#answers.splice(0, before);
        const data = new this.#uint8Array(framed.length);
        data.set(framed);
        this.#port.onmessage({ data });
        const answers = [];
        for (;;) {
            while (this.#answers.length === 0) await new Promise((resolve) => { this.#wake = resolve; });
            const answer = new Map();
            new Cursor(this.#answers.shift()).fields((field, value) => answer.set(field, value));
            if (answer.has(RPC.fatalError)) {
                throw new Error(`the trace processor gave up: ${answer.get(RPC.fatalError)}`);
            }
            answers.push(answer);
            if (isLast(answer)) return answers;
        }
    }

    /** Reads a trace. */
    async open(file) {
        const trace = fs.readFileSync(file);
        for (let at = 0; at < trace.length; at += APPEND_BYTES) {
            const part = trace.subarray(at, at + APPEND_BYTES);
            const [answer] = await this.#call(METHOD.append, bytesField(RPC.appendData, part));
            new Cursor(answer.get(RPC.appendResult) ?? Buffer.alloc(0)).fields((field, value) => {
                if (field === 2 && value.length) throw new Error(`${file}: ${value}`);
            });
        }
        const [answer] = await this.#call(METHOD.finalize, Buffer.alloc(0));
        new Cursor(answer.get(RPC.finalizeResult) ?? Buffer.alloc(0)).fields((field, value) => {
            if (Buffer.isBuffer(value) && value.length) throw new Error(`${file}: ${value}`);
        });
    }

    /** Runs SQL; the rows of its last statement, as objects. */
    async query(sql) {
        const columns = [], cells = [];
        const isLast = (answer) => {
            let last = false;
            new Cursor(answer.get(RPC.queryResult) ?? Buffer.alloc(0)).fields((field, value) => {
                if (field === 1) columns.push(value.toString('utf8'));
                else if (field === 2 && value.length) throw new Error(value.toString('utf8'));
                else if (field === 3) {
                    readCells(value, cells);
                    new Cursor(value).fields((f, v) => { if (f === 6 && v) last = true; });
                }
            });
            return last;
        };
        await this.#call(METHOD.query, bytesField(RPC.queryArgs, bytesField(1, Buffer.from(sql))), isLast);
        const rows = [];
        for (let at = 0; at < cells.length; at += columns.length) {
            rows.push(Object.fromEntries(columns.map((name, i) => [name, cells[at + i]])));
        }
        return rows;
    }
}
