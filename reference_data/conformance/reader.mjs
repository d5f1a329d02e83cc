// Reads every vector of the kit: node reader.mjs [FOLDER] prints its name, program, and what goes in and comes out.
import { readFileSync } from "node:fs";

const folder = process.argv[2] ?? import.meta.dirname;
const TYPES = { "<f4": Float32Array, "<f8": Float64Array, "<i4": Int32Array, "|u1": Uint8Array };
const aligned = (bytes) => bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
const files = {};

function npy(path) {
  const bytes = readFileSync(path), start = 10 + bytes.readUInt16LE(8);
  const type = TYPES[/'descr': '([^']*)'/.exec(bytes.toString("latin1", 10, start))[1]];
  return new type(aligned(bytes.subarray(start)));
}
const wave = (path) => new Int16Array(aligned(readFileSync(path).subarray(44)));

function part({ file, offset, shape }) {
  files[file] ??= file.endsWith(".wav") ? wave(`${folder}/${file}`) : npy(`${folder}/${file}`);
  return offset === undefined ? files[file] : files[file].subarray(offset, offset + shape.reduce((a, b) => a * b, 1));
}
const text = (values) => `${values.length} ${Array.from(values).reduce((sum, x) => sum + (isFinite(x) ? x : 0), 0)}`;

for (let level = 1; level <= 8; level++)
  for (const { id, options, input, expected } of JSON.parse(readFileSync(`${folder}/level-${level}.json`)).vectors)
    console.log(`${id} ${options.program} ${text(part(input))} ${text(part(expected))}`);
