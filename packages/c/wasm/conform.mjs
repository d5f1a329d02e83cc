// Grades the WebAssembly build on the conformance kit:
//     kaldi-compat conform -- node packages/c/wasm/conform.mjs [--scalar] {list.json}
import { readFileSync, writeFileSync } from "node:fs";
import { Frontend, loadModule } from "./kaldi_features.js";

const PROGRAMS = { "compute-fbank-feats": "fbank", "compute-mfcc-feats": "mfcc", "compute-plp-feats": "plp",
  "compute-spectrogram-feats": "spectrogram" };
const given = process.argv.slice(2).filter((each) => each !== "--scalar");
const module = await loadModule({ simd: !process.argv.includes("--scalar") });

function samplesOf(file) {
  const bytes = readFileSync(file);
  if (file.endsWith(".f32")) return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
  if (bytes.toString("latin1", 0, 4) !== "RIFF") return null;
  let at = 12;
  while (bytes.toString("latin1", at, at + 4) !== "data") at += 8 + bytes.readUInt32LE(at + 4) + (bytes.readUInt32LE(at + 4) % 2);
  const count = Math.min(bytes.readUInt32LE(at + 4), bytes.length - at - 8) >> 1;
  return Int16Array.from({ length: count }, (_, n) => bytes.readInt16LE(at + 8 + 2 * n));
}

function writeArray(file, data, shape) {
  const type = data instanceof Int32Array ? "<i4" : "<f4";
  const text = `{'descr': '${type}', 'fortran_order': False, 'shape': (${shape.join(", ")},), }`;
  const head = "\x93NUMPY\x01\x00" + "  " + text + " ".repeat(63 - ((10 + text.length) % 64)) + "\n";
  const bytes = Buffer.from(head, "latin1");
  bytes.writeUInt16LE(bytes.length - 10, 8);
  writeFileSync(file, Buffer.concat([bytes, Buffer.from(data.buffer, data.byteOffset, data.byteLength)]));
}

function answer(audio, options, out) {
  const { program, chunks, output, audio_frequency, ...others } = options;
  for (const name of Object.keys(others)) if (name.startsWith("allow_") && name.endsWith("sample")) delete others[name];
  const samples = samplesOf(audio);
  if (!samples || !PROGRAMS[program] || audio_frequency !== undefined) return;
  const frontend = new Frontend(module, { feature: PROGRAMS[program], options: { full_scale: 32768, waveform_scale: 1, ...others } });
  if (!chunks) {
    const { data, frames, dim } = frontend.compute(samples);
    writeArray(out, data, [frames, dim]);
    return;
  }
  const ready = new Int32Array(chunks.length), parts = [];
  let at = 0, frames = 0;
  chunks.forEach((length, n) => {
    parts.push(frontend.accept(samples.subarray(at, (at += length))));
    if (n === chunks.length - 1) parts.push(frontend.finish());
    ready[n] = frames = parts.reduce((sum, part) => sum + part.frames, 0);
  });
  const data = new Float32Array(frames * frontend.dim);
  parts.reduce((place, part) => (data.set(part.data, place), place + part.data.length), 0);
  if (output === "frames-ready") writeArray(out, ready, [ready.length]);
  else writeArray(out, data, [frames, frontend.dim]);
}

for (const { audio, options, out } of JSON.parse(readFileSync(given[0]))) answer(audio, options, out);
