// A store for blobwise: one file per blob, over HTTP. With --null it keeps lengths only, to show what the protocol costs.
'use strict';
const fs = require('node:fs/promises');
const http = require('node:http');
const path = require('node:path');
const { parseArgs } = require('node:util');

const text = { type: 'string' };
const { values: options } = parseArgs({ options: { dir: text, socket: text, null: { type: 'boolean' } } });
const lengths = new Map();
let drafts = 0;

async function read(key) {
  if (options.null) return lengths.has(key) ? Buffer.alloc(lengths.get(key)) : null;
  return fs.readFile(path.join(options.dir, key)).catch((error) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
}

async function write(key, blob) {
  if (options.null) return lengths.set(key, blob.length);
  const draft = path.join(options.dir, `draft-${drafts++}`);
  await fs.writeFile(draft, blob);
  return fs.rename(draft, path.join(options.dir, key));
}

async function remove(key) {
  lengths.delete(key);
  if (!options.null) await fs.rm(path.join(options.dir, key), { force: true });
}

function sendPart(answer, blob, range) {
  const [first, last] = range.slice('bytes='.length).split('-').map(Number);
  if (first >= blob.length) return answer.writeHead(416).end();
  return answer.writeHead(206).end(blob.subarray(first, last + 1));
}

async function serve(request, answer) {
  const key = path.basename(request.url);
  if (request.method === 'PUT') {
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    await write(key, Buffer.concat(pieces));
    return answer.writeHead(201).end();
  }
  if (request.method === 'DELETE') {
    await remove(key);
    return answer.writeHead(204).end();
  }
  const blob = await read(key);
  if (blob === null) return answer.writeHead(404).end();
  if (request.headers.range) return sendPart(answer, blob, request.headers.range);
  answer.writeHead(200, { 'Content-Length': blob.length });
  return answer.end(request.method === 'HEAD' ? undefined : blob);
}

const server = http.createServer((request, answer) => {
  serve(request, answer).catch((error) => answer.writeHead(500).end(String(error)));
});
// A run pauses between phases for longer than the default of 5 s.
server.keepAliveTimeout = 0;
server.listen(options.socket);
