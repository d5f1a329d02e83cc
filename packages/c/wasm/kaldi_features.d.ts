/** Name of a feature. */
export type Feature = "fbank" | "mfcc" | "plp" | "spectrogram";

/** Options of a front end: those of kf_options in kaldi_features.h, where their defaults are. */
export interface Options {
  // Frames.
  /** Hz. */
  sample_frequency?: number;
  /** Milliseconds. */
  frame_length?: number;
  /** Milliseconds. */
  frame_shift?: number;
  preemphasis_coefficient?: number;
  /** Standard deviation of Kaldi's noise; 1, and 0 in presets. */
  dither?: number;
  blackman_coeff?: number;
  /** Factor on audio in -1 to 1; 32768, Kaldi's scale. */
  waveform_scale?: number;
  /** Full amplitude of float samples; 1. */
  full_scale?: number;
  window_type?: "povey" | "hamming" | "hanning" | "rectangular" | "sine" | "blackman";
  remove_dc_offset?: boolean;
  round_to_power_of_two?: boolean;
  snip_edges?: boolean;
  // Mel bins.
  num_mel_bins?: number;
  /** Hz. */
  low_freq?: number;
  /** Hz; 0 or less is an offset from the Nyquist frequency. */
  high_freq?: number;
  vtln_low?: number;
  vtln_high?: number;
  vtln_warp?: number;
  htk_compat?: boolean;
  allow_empty_bins?: boolean;
  // Energy.
  use_energy?: boolean;
  raw_energy?: boolean;
  energy_floor?: number;
  // Fbank.
  use_log_fbank?: boolean;
  use_power?: boolean;
  // MFCC and PLP.
  num_ceps?: number;
  lpc_order?: number;
  cepstral_lifter?: number;
  cepstral_scale?: number;
  compress_factor?: number;
  // Spectrogram.
  return_raw_fft?: boolean;
  // Steps before the feature.
  subtract_clip_mean?: boolean;
  shorten_frame?: boolean;
  double_precision?: boolean;
  // Steps after the feature.
  subtract_mean?: boolean;
  cmn_window?: number;
  min_cmn_window?: number;
  cmn_center?: boolean;
  keep_voiced?: boolean;
  vad_energy_threshold?: number;
  vad_energy_mean_scale?: number;
  vad_proportion_threshold?: number;
  vad_frames_context?: number;
  utterance_cmvn?: boolean;
  utterance_norm_vars?: boolean;
  utterance_unbiased?: boolean;
  utterance_epsilon?: number;
  delta_order?: number;
  delta_window?: number;
  lfr_stack?: number;
  lfr_stride?: number;
  stack_frames?: number;
  pad_frames?: number;
  global_mean?: number;
  global_std?: number;
  floor_minimum?: number;
  /** The model's statistics; null leaves out the step of a preset that needs them. */
  statistics?: Statistics | null;
}

/** (x + shift[i]) * scale[i] for each column. */
export interface Statistics {
  shift: ArrayLike<number>;
  scale: ArrayLike<number>;
}

/** Features, row by row: data[frame * dim + column]. */
export interface Features {
  data: Float32Array;
  frames: number;
  dim: number;
}

export interface LoadSettings {
  /** Use SIMD instructions where the engine has them; true. */
  simd?: boolean;
}

export interface FrontendSettings {
  feature?: Feature;
  preset?: string;
  options?: Omit<Options, "statistics">;
  statistics?: Statistics | null;
}

/** Audio: floats in -1 to 1, or 16-bit integers. */
export type Samples = Float32Array | Int16Array;

/** A front end: audio to features, with the bits of Kaldi. */
export class Frontend {
  /** Make a front end at once, of a compiled library: for workers and worklets. */
  constructor(module: WebAssembly.Module, settings?: FrontendSettings);
  /** Make a front end of Kaldi's defaults for the class, with some options changed. */
  static create<T extends typeof Frontend>(this: T, options?: Options, settings?: LoadSettings): Promise<InstanceType<T>>;
  /** Make the front end of a published model, whatever its feature is, with some options changed. */
  static fromPreset<T extends typeof Frontend>(this: T, preset: string, options?: Options, settings?: LoadSettings): Promise<InstanceType<T>>;
  /** Sampling rate that the front end takes, in Hz. */
  readonly sampleRate: number;
  /** Number of columns of the features. */
  readonly dim: number;
  /** Compute the features of a whole utterance. Discards a stream that has begun. */
  compute(samples: Samples): Features;
  /** Take the next chunk of a stream, of any length, and return the rows that it decides. */
  accept(samples: Samples): Features;
  /** End a stream: return its last rows, and start the next one. */
  finish(): Features;
  /** Discard a stream that has begun. */
  reset(): void;
  /** Start the noise of dithering again, as srand(seed) does. */
  seed(seed: number): void;
}

export class Fbank extends Frontend {}
export class Mfcc extends Frontend {}
export class Plp extends Frontend {}
export class Spectrogram extends Frontend {}

/** A mistake, in one line. `status` is that of kaldi_features.h. */
export class KaldiFeaturesError extends Error {
  readonly status: number;
}

/** Return the names of all presets. */
export function presetNames(): Promise<string[]>;
/** Load the bytes of the library. */
export function loadBytes(settings?: LoadSettings): Promise<Uint8Array>;
/** Load and compile the library, once. */
export function loadModule(settings?: LoadSettings): Promise<WebAssembly.Module>;

export interface WorkletSettings extends FrontendSettings, LoadSettings {
  /** Called with the rows that each block of audio decides; `ended` after finish(). */
  onFeatures?: (features: Features & { ended: boolean }) => void;
  /** Called with the error that stopped the node. Without it the error is thrown. */
  onError?: (error: KaldiFeaturesError) => void;
}

/** Return a node that computes features of its input. The sampling rate of the context must be that of the front end. */
export function createWorkletNode(context: BaseAudioContext, settings: WorkletSettings): Promise<AudioWorkletNode & { finish(): void }>;
