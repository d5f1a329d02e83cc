// Processor time of fbank with 80 bins on 30 s of audio, one thread, in multiples of real time: node speed.mjs
import { Fbank } from "./kaldi_features.js";

const audio = Float32Array.from({ length: 480000 }, (_, n) => ((n * 7919) % 2001) / 5000 - 0.2);
for (const simd of [false, true]) {
  const fbank = await Fbank.create({ num_mel_bins: 80, dither: 0 }, { simd });
  const best = { compute: Infinity, accept: Infinity };
  for (let round = 0; round < 20; round++) {
    let start = process.cpuUsage(), used;
    fbank.compute(audio);
    used = process.cpuUsage(start);
    best.compute = Math.min(best.compute, used.user + used.system);
    start = process.cpuUsage();
    for (let at = 0; at < audio.length; at += 128) fbank.accept(audio.subarray(at, at + 128));
    fbank.finish();
    used = process.cpuUsage(start);
    best.accept = Math.min(best.accept, used.user + used.system);
  }
  const times = Object.entries(best).map(([name, microseconds]) => `${name} ${Math.round(30e6 / microseconds)} times real time`);
  console.log(`${simd ? "SIMD  " : "scalar"} ${times.join(", ")} (accept: chunks of 128 samples)`);
}
