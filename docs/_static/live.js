// The page "Features in the browser": a recording, or what the microphone hears, to features, and a comparison with a .npy file.
import { Fbank, createWorkletNode, presetNames } from "./kaldi_features.js";

const NAMES = ["preset", "drop", "file", "record", "sweep", "save", "status", "compared", "picture"];
const page = Object.fromEntries(NAMES.map((name) => [name, document.getElementById(`live-${name}`)]));
const state = { audio: null, features: null, expected: null, stop: null };

/** The samples of a wave file of 16 bits, its first channel; null for other files. */
export function readWave(buffer) {
  const view = new DataView(buffer), word = (at) => view.getUint32(at, true);
  if (buffer.byteLength < 44 || view.getUint32(0) !== 0x52494646) return null;
  let channels = 0, rate = 0;
  for (let at = 12; at + 8 <= buffer.byteLength; at += 8 + word(at + 4) + (word(at + 4) % 2)) {
    if (view.getUint32(at) === 0x666d7420) {
      if (view.getUint16(at + 8, true) !== 1 || view.getUint16(at + 22, true) !== 16) return null;
      channels = view.getUint16(at + 10, true);
      rate = word(at + 12);
    } else if (view.getUint32(at) === 0x64617461 && channels) {
      const count = Math.floor(Math.min(word(at + 4), buffer.byteLength - at - 8) / 2 / channels);
      return { samples: Int16Array.from({ length: count }, (_, n) => view.getInt16(at + 8 + 2 * n * channels, true)), rate };
    }
  }
  return null;
}

/** A .npy file of little-endian float32 or float64. */
export function readNpy(buffer) {
  const bytes = new Uint8Array(buffer), long = bytes[6] > 1;
  if (String.fromCharCode(...bytes.slice(1, 6)) !== "NUMPY") throw new Error("this is not a .npy file");
  const start = long ? 12 : 10, view = new DataView(buffer);
  const length = long ? view.getUint32(8, true) : view.getUint16(8, true);
  const head = String.fromCharCode(...bytes.slice(start, start + length));
  const [, type] = /'descr': '([^']*)'/.exec(head) ?? [], kind = { "<f4": Float32Array, "<f8": Float64Array }[type];
  if (!kind || /'fortran_order': True/.test(head)) throw new Error(`expected float32 or float64 row by row, not ${type}: np.save(file, np.ascontiguousarray(features, np.float32))`);
  const shape = /'shape': \(([^)]*)\)/.exec(head)[1].split(",").filter((each) => each.trim()).map(Number);
  return { data: new kind(buffer.slice(start + length)), shape };
}

export function writeNpy({ data, frames, dim }) {
  const text = `{'descr': '<f4', 'fortran_order': False, 'shape': (${frames}, ${dim}), }`.padEnd(117) + "\n";
  const head = Uint8Array.from("\x93NUMPY\x01\x00\x76\x00" + text, (character) => character.charCodeAt(0));
  return new Blob([head, data]);
}

/** How features differ from an array: a sentence. */
export function compare({ data, frames, dim }, { data: expected, shape }) {
  if (shape.length !== 2 || shape[0] !== frames || shape[1] !== dim)
    return `The shapes differ: the file has (${shape.join(", ")}), the page (${frames}, ${dim}).`;
  let largest = 0, at = 0, different = 0;
  for (let n = 0; n < data.length; n++) {
    if (Object.is(data[n], expected[n])) continue;
    different++;
    const difference = Math.abs(data[n] - expected[n]);
    if (!(difference <= largest)) [largest, at] = [difference, n];
  }
  if (!different) return "Equal in all bits.";
  const place = `frame ${Math.floor(at / dim)}, column ${at % dim}`;
  return `${different} of ${data.length} values differ, by up to ${largest.toExponential(2)} (${place}: ${expected[at]} in the file, ${data[at]} here).`;
}

function draw({ data, frames, dim }) {
  const { picture } = page, pixels = new ImageData(Math.max(frames, 1), dim);
  let low = Infinity, high = -Infinity;
  for (const x of data) if (Number.isFinite(x)) [low, high] = [Math.min(low, x), Math.max(high, x)];
  for (let t = 0; t < frames; t++)
    for (let c = 0; c < dim; c++) {
      const x = (data[t * dim + c] - low) / (high - low || 1), place = 4 * ((dim - 1 - c) * frames + t);
      pixels.data.set([255 * Math.min(1, 1.6 * x), 255 * x * x, 90 + 120 * x - 160 * x * x, 255], place);
    }
  [picture.width, picture.height] = [pixels.width, pixels.height];
  picture.getContext("2d").putImageData(pixels, 0, 0);
}

function show(features, note) {
  state.features = features;
  page.status.textContent = note;
  page.compared.textContent = state.expected ? compare(features, state.expected) : "";
  page.save.hidden = false;
  URL.revokeObjectURL(page.save.href);
  page.save.href = URL.createObjectURL(writeNpy(features));
  draw(features);
}

const frontend = () => Fbank.fromPreset(page.preset.value, { statistics: null });

/** Compute the features of the audio that the page has. */
async function compute() {
  if (!state.audio) return;
  const made = await frontend(), { samples, note = "" } = await state.audio(made.sampleRate);
  let features, runs = 0; // clocks of browsers are coarse
  const start = performance.now();
  do features = made.compute(samples);
  while (++runs < 50 && performance.now() - start < 20);
  const took = Math.max((performance.now() - start) / runs, 0.001);
  const seconds = samples.length / made.sampleRate;
  show(features, `${features.frames} frames x ${features.dim} of ${seconds.toFixed(2)} s in ${took.toFixed(2)} ms, ` +
    `${Math.round((1000 * seconds) / took)} times real time.${note}`);
}

async function take(file) {
  const buffer = await file.arrayBuffer();
  if (file.name.endsWith(".npy")) {
    state.expected = readNpy(buffer);
    page.compared.textContent = state.features ? compare(state.features, state.expected) : `${file.name}: now choose the audio.`;
    return;
  }
  state.audio = async (rate) => {
    const wave = readWave(buffer);
    if (wave?.rate === rate) return { samples: wave.samples };
    const decoded = await new OfflineAudioContext(1, 1, rate).decodeAudioData(buffer.slice(0));
    return { samples: decoded.getChannelData(0), note: ` The browser decoded the file and resampled it to ${rate} Hz, which Kaldi does otherwise.` };
  };
  await compute();
}

/** A tone that sweeps up, for those who have no recording at hand. */
function sweep() {
  state.audio = async (rate) => ({
    samples: Int16Array.from({ length: 2 * rate }, (_, n) => 8000 * Math.sin((Math.PI * rate * n * n) / (8 * rate * rate))),
  });
  return compute();
}

const RECORDER = `registerProcessor("recorder", class extends AudioWorkletProcessor {
  process([[samples]]) { if (samples) this.port.postMessage(samples.slice()); return true; }
});`;

async function record() {
  if (state.stop) return state.stop();
  const made = await frontend(), settings = { echoCancellation: false, noiseSuppression: false, autoGainControl: false };
  const media = await navigator.mediaDevices.getUserMedia({ audio: settings });
  const context = new AudioContext({ sampleRate: made.sampleRate }), source = context.createMediaStreamSource(media);
  await context.audioWorklet.addModule(URL.createObjectURL(new Blob([RECORDER], { type: "text/javascript" })));
  const recorder = new AudioWorkletNode(context, "recorder", { numberOfOutputs: 0 }), blocks = [], rows = [];
  recorder.port.onmessage = ({ data }) => blocks.push(data);
  const gathered = () => {
    const data = new Float32Array(rows.reduce((sum, each) => sum + each.data.length, 0));
    rows.reduce((place, each) => (data.set(each.data, place), place + each.data.length), 0);
    return { data, frames: data.length / made.dim, dim: made.dim };
  };
  const note = (state.worklet = { frames: 0, error: "" });
  const live = await createWorkletNode(context, { preset: page.preset.value, statistics: null,
    onFeatures: (features) => {
      rows.push(features);
      note.frames += features.frames;
      if (features.frames && note.frames % 10 < features.frames) show(gathered(), `${note.frames} frames, in an AudioWorklet.`);
    },
    onError: (error) => (page.status.textContent = note.error = `${error.message}. Recording: the features come when you stop.`) });
  source.connect(live);
  source.connect(recorder);
  page.record.textContent = "Stop";
  state.stop = async () => {
    state.stop = null;
    page.record.textContent = "Speak";
    source.disconnect();
    for (const track of media.getTracks()) track.stop();
    await context.close();
    const samples = new Float32Array(blocks.reduce((sum, block) => sum + block.length, 0));
    blocks.reduce((place, block) => (samples.set(block, place), place + block.length), 0);
    state.audio = async () => ({ samples });
    if (samples.length) await compute();
  };
}

const guarded = (action) => (event) => action(event)?.catch?.((error) => (page.status.textContent = error.message));
const files = (list) => [...list].reduce((before, file) => before.then(() => take(file)), Promise.resolve());

page.drop.ondragover = (event) => event.preventDefault();
page.drop.ondrop = guarded((event) => (event.preventDefault(), files(event.dataTransfer.files)));
page.file.onchange = guarded(() => files(page.file.files));
page.preset.onchange = guarded(compute);
page.sweep.onclick = guarded(sweep);
page.record.onclick = guarded(record);
presetNames().then((names) => {
  page.preset.replaceChildren(...names.map((name) => new Option(name, name, name === "zipformer", name === "zipformer")));
  page.status.textContent = "Ready.";
}).catch((error) => (page.status.textContent = error.message));
window.live = state;
