// Kaldi's features in WebAssembly: see README.md and kaldi_features.d.ts. Also runs in an AudioWorklet, which has no URL, fetch or
// TextDecoder: these are used where files are loaded only.

import { PRESETS } from "./kaldi_features.presets.js";

const MAX_MEMORY_BYTES = 2 ** 32 - 2 ** 17;
const NAMES = [["kf_options", "Options"], ["kf_preset_name()", "presetNames()"], ["kf_compute()", "compute()"], ["to NULL", "to null"]];

/** A status of the library other than KF_OK, or a file that cannot be loaded. */
export class KaldiFeaturesError extends Error {
  constructor(message, status = 0) {
    super(message);
    this.name = "KaldiFeaturesError";
    this.status = status;
  }
}

async function bytesAt(address) {
  if (address.protocol === "file:" && globalThis.process?.versions?.node) {
    const { readFile } = await import(/* webpackIgnore: true */ /* @vite-ignore */ "node:fs/promises");
    return readFile(address);
  }
  const answer = await fetch(address);
  if (!answer.ok) throw new KaldiFeaturesError(`cannot load ${address}: status ${answer.status}`);
  return new Uint8Array(await answer.arrayBuffer());
}

/** Return the bytes of the library: with SIMD instructions, unless the engine has none or simd is false. */
export async function loadBytes({ simd = true } = {}) {
  if (simd) {
    const bytes = await bytesAt(new URL("./kaldi_features.simd.wasm", import.meta.url));
    if (WebAssembly.validate(bytes)) return bytes;
  }
  return bytesAt(new URL("./kaldi_features.wasm", import.meta.url));
}

const loaded = {};

/** Return the compiled library. It is loaded once. */
export function loadModule({ simd = true } = {}) {
  const promise = (loaded[simd] ??= loadBytes({ simd }).then((bytes) => WebAssembly.compile(bytes)));
  promise.catch(() => delete loaded[simd]); // so that the next call tries again
  return promise;
}

/** An instance of the library and the start of its free memory. Memory is handed out and never taken back. */
class Core {
  constructor(module) {
    this.functions = new WebAssembly.Instance(module, {}).exports;
    this.functions._initialize?.();
    this.top = this.functions.__heap_base.value;
  }

  /** Return the address of `size` bytes behind what is in use; `keep` puts them in use. */
  take(size, keep = true) {
    const start = Math.ceil(this.top / 64) * 64, end = start + size;
    const missing = end - this.functions.memory.buffer.byteLength;
    // Memory in use is that of the front end. All other memory holds the audio of one call.
    const remedy = keep ? "use fewer mel bins, shorter frames or fewer stacked frames" : "pass the audio to accept() in chunks";
    if (end > MAX_MEMORY_BYTES) throw new KaldiFeaturesError(`this needs more than 4 GB of memory: ${remedy}`);
    try {
      if (missing > 0) this.functions.memory.grow(Math.ceil(missing / 65536));
    } catch {
      throw new KaldiFeaturesError(`there are no ${missing} bytes of memory: ${remedy}`);
    }
    if (keep) this.top = end;
    return start;
  }

  view() {
    return new DataView(this.functions.memory.buffer);
  }

  /** Put text, of which other characters than ASCII are no name, in memory. */
  text(text, address) {
    const bytes = new Uint8Array(this.functions.memory.buffer, address, text.length + 1);
    for (let i = 0; i < text.length; i++) bytes[i] = Math.min(text.charCodeAt(i), 127);
    bytes[text.length] = 0;
    return address;
  }

  string(address) {
    const bytes = new Uint8Array(this.functions.memory.buffer);
    let text = "";
    for (let i = address; bytes[i]; i++) text += String.fromCharCode(bytes[i]);
    return text;
  }

  /** Throw an error for a status of the C library, with JavaScript's names in place of the names of C. */
  check(status, about = "") {
    if (!status) return;
    let text = this.string(this.functions.kf_strerror(status));
    for (const [inC, here] of NAMES) text = text.replaceAll(inC, here);
    throw new KaldiFeaturesError(about + text, status);
  }
}

const FEATURES = ["fbank", "mfcc", "plp", "spectrogram"];
const TEXT = 256; // longest name or value
const ERROR_NAME = 4, ERROR_STATISTICS = 13; // kf_status

/** A front end. Its own memory holds nothing else. */
export class Frontend {
  #core;
  #object;
  #written;

  /** Make the front end of a compiled library at once. */
  constructor(module, { feature = "fbank", preset, options = {}, statistics } = {}) {
    const core = (this.#core = new Core(module)), { functions } = core;
    const size = functions.kf_options_size(), given = core.take(size), texts = core.take(2 * TEXT);
    this.#written = core.take(8);
    core.view().setUint32(given, size, true);
    if (preset !== undefined) {
      if (!Object.hasOwn(PRESETS, preset)) core.check(ERROR_NAME, `${preset}: `);
      const described = PRESETS[preset];
      if (described.statistics && statistics === undefined) core.check(ERROR_STATISTICS, `${preset}: `);
      feature = described.feature;
      options = { dither: 0, full_scale: 1, ...described.options, ...options };
    } else {
      options = { full_scale: 1, waveform_scale: 32768, ...options };
    }
    core.check(functions.kf_defaults(given, FEATURES.indexOf(feature)), `feature ${feature}: `);
    for (const [name, value] of Object.entries(options)) {
      const words = [name, String(typeof value === "boolean" ? Number(value) : value)].map((each) => each.slice(0, TEXT - 1));
      const [first, second] = words.map((each, i) => core.text(each, texts + i * TEXT));
      core.check(functions.kf_set(given, first, second), `${name}=${value}: `);
    }
    if (statistics !== undefined) {
      const { shift = [], scale = [] } = statistics ?? {};
      if (shift.length !== scale.length) throw new TypeError("statistics.shift and statistics.scale must have the same length");
      const [first, second] = [shift, scale].map((values) => core.take(4 * values.length));
      for (const [address, values] of [[first, shift], [second, scale]])
        new Float32Array(functions.memory.buffer, address, values.length).set(values);
      core.check(functions.kf_set_statistics(given, first, second, shift.length), "statistics: ");
    }
    this.sampleRate = core.view().getFloat32(given + 8, true); // sample_frequency
    core.check(functions.kf_size(given, this.#written));
    const bytes = core.view().getUint32(this.#written, true), memory = core.take(bytes);
    core.check(functions.kf_init(memory, bytes, given, this.#written));
    this.#object = core.view().getUint32(this.#written, true);
    this.dim = functions.kf_dim(this.#object);
  }

  static async create(options = {}, { simd } = {}) {
    const { statistics, ...others } = options;
    return new this(await loadModule({ simd }), { feature: this.feature, options: others, statistics });
  }

  static async fromPreset(preset, options = {}, { simd } = {}) {
    const { statistics, ...others } = options;
    return new this(await loadModule({ simd }), { preset, options: others, statistics });
  }

  #run(name, samples, rows) {
    const { functions } = this.#core, count = samples?.length ?? 0;
    if (!(samples === undefined || samples instanceof Float32Array || samples instanceof Int16Array))
      throw new TypeError("samples must be a Float32Array in -1 to 1, or an Int16Array");
    const room = Math.ceil((samples?.byteLength ?? 0) / 64) * 64, size = rows * this.dim;
    const place = this.#core.take(room + 4 * size, false), out = place + room;
    if (count) new samples.constructor(functions.memory.buffer, place, count).set(samples);
    const given = samples === undefined ? [] : [place, BigInt(count)];
    const suffix = samples instanceof Int16Array ? "_int16" : "";
    this.#core.check(functions[name + suffix](this.#object, ...given, out, BigInt(rows), this.#written));
    const frames = Number(this.#core.view().getBigInt64(this.#written, true));
    return { data: new Float32Array(functions.memory.buffer, out, frames * this.dim).slice(), frames, dim: this.dim };
  }

  compute(samples) {
    return this.#run("kf_compute", samples ?? null, Number(this.#core.functions.kf_rows(this.#object, BigInt(samples?.length ?? 0))));
  }

  accept(samples) {
    const count = BigInt(samples?.length ?? 0);
    return this.#run("kf_accept", samples ?? null, Number(this.#core.functions.kf_ready(this.#object, count, 0)));
  }

  finish() {
    return this.#run("kf_finish", undefined, Number(this.#core.functions.kf_ready(this.#object, 0n, 1)));
  }

  reset() {
    this.#core.functions.kf_reset(this.#object);
  }

  seed(seed) {
    this.#core.functions.kf_seed(this.#object, seed);
  }
}

export class Fbank extends Frontend {
  static feature = "fbank";
}
export class Mfcc extends Frontend {
  static feature = "mfcc";
}
export class Plp extends Frontend {
  static feature = "plp";
}
export class Spectrogram extends Frontend {
  static feature = "spectrogram";
}

/** Return the names of all presets. */
export async function presetNames() {
  return Object.keys(PRESETS);
}

/** Return an AudioWorkletNode that computes features of its input while it plays. */
export async function createWorkletNode(context, { onFeatures, onError, simd, ...settings }) {
  const [bytes] = await Promise.all([loadBytes({ simd }), context.audioWorklet.addModule(new URL("./kaldi_features.worklet.js", import.meta.url))]);
  const processorOptions = { bytes, ...settings };
  const node = new AudioWorkletNode(context, "kaldi-features", { numberOfInputs: 1, numberOfOutputs: 0, processorOptions });
  node.port.onmessage = ({ data }) => {
    if (!data.error) onFeatures?.(data);
    else if (onError) onError(new KaldiFeaturesError(data.error));
    else throw new KaldiFeaturesError(data.error);
  };
  return Object.assign(node, { finish: () => node.port.postMessage("finish") });
}
