// Answers the conformance kit with transformers.js: node transformers_js.mjs LIST.json, with TRANSFORMERS_JS_SOURCE naming
// src/utils/audio.js of the package. It calls spectrogram() as SeamlessM4TFeatureExtractor does.
import { readFileSync, writeFileSync } from "node:fs";

const { mel_filter_bank, spectrogram, window_function } = await import(process.env.TRANSFORMERS_JS_SOURCE);
const FIXED = {
  snip_edges: true, use_energy: false, htk_compat: false, use_log_fbank: true, vtln_warp: 1, subtract_mean: false,
  allow_downsample: false, allow_upsample: false,
};
const WINDOWS = { povey: "povey", hamming: "hamming", hanning: "hann" };

function samplesOf(file) {
  const bytes = readFileSync(file);
  return Float64Array.from({ length: (bytes.length - 44) >> 1 }, (_, n) => bytes.readInt16LE(44 + 2 * n));
}

function writeArray(file, data, shape) {
  const text = `{'descr': '<f4', 'fortran_order': False, 'shape': (${shape.join(", ")}), }`;
  const head = "\x93NUMPY\x01\x00" + "  " + text + " ".repeat(63 - ((10 + text.length) % 64)) + "\n";
  const bytes = Buffer.from(head, "latin1");
  bytes.writeUInt16LE(bytes.length - 10, 8);
  writeFileSync(file, Buffer.concat([bytes, Buffer.from(data.buffer, data.byteOffset, data.byteLength)]));
}

for (const { audio, options, out } of JSON.parse(readFileSync(process.argv[2]))) {
  const window_name = WINDOWS[options.window_type];
  if (options.program !== "compute-fbank-feats" || "chunks" in options || !window_name) continue;
  if (Object.keys(FIXED).some((name) => options[name] !== FIXED[name])) continue;
  const rate = options.sample_frequency, samples = samplesOf(audio);
  const length = Math.floor((rate * options.frame_length) / 1000), shift = Math.floor((rate * options.frame_shift) / 1000);
  if (samples.length < length) continue;
  const points = options.round_to_power_of_two ? 2 ** Math.ceil(Math.log2(length)) : length;
  const high = options.high_freq > 0 ? options.high_freq : rate / 2 + options.high_freq;
  const mel_filters = mel_filter_bank(points / 2 + 1, options.num_mel_bins, options.low_freq, high, rate, null, "kaldi", true);
  try {
    const made = await spectrogram(samples, window_function(length, window_name, { periodic: false }), length, shift, {
      fft_length: points, power: options.use_power ? 2 : 1, center: false, preemphasis: options.preemphasis_coefficient,
      mel_filters, log_mel: "log", mel_floor: 1.192092955078125e-7, remove_dc_offset: options.remove_dc_offset,
      transpose: true,
    });
    writeArray(out, made.data, made.dims);
  } catch (error) {
    console.error(`${out}: ${error}`);
    writeArray(out, new Float32Array(1), [1]);
  }
}
