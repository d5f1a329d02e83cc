// The processor behind createWorkletNode(): posts the rows that each block of audio decides.
import { Frontend } from "./kaldi_features.js";

class FeatureProcessor extends AudioWorkletProcessor {
  constructor({ processorOptions: { bytes, ...settings } }) {
    super();
    this.isAlive = true;
    try {
      this.frontend = new Frontend(new WebAssembly.Module(bytes), settings);
      if (this.frontend.sampleRate !== sampleRate)
        throw new Error(`the front end takes ${this.frontend.sampleRate} Hz, and the AudioContext has ${sampleRate} Hz: ` +
          `make it with new AudioContext({ sampleRate: ${this.frontend.sampleRate} })`);
      this.frontend.accept(new Float32Array(0)); // fails if the front end needs the whole utterance
    } catch (error) {
      this.fail(error);
    }
    this.port.onmessage = () => this.isAlive && this.send(() => this.frontend.finish(), true);
  }

  fail(error) {
    this.isAlive = false;
    this.port.postMessage({ error: error.message });
  }

  send(compute, ended) {
    try {
      const features = compute();
      if (features.frames || ended) this.port.postMessage({ ...features, ended }, [features.data.buffer]);
    } catch (error) {
      this.fail(error);
    }
  }

  process([[samples]]) {
    if (this.isAlive && samples) this.send(() => this.frontend.accept(samples), false);
    return this.isAlive;
  }
}

registerProcessor("kaldi-features", FeatureProcessor);
