"""kaldi-native-fbank from Python, WAV files in, archive out by kaldiio: native_fbank.py WAV_SCP ARK [DITHER]."""

import sys

import kaldi_native_fbank as knf
import kaldiio
import numpy as np


def main(script: str, archive: str, dither: str = "0") -> None:
    options = knf.FbankOptions()
    options.frame_opts.dither = float(dither)
    options.mel_opts.num_bins = 80
    with kaldiio.WriteHelper(f"ark:{archive}") as writer:
        for key, (rate, samples) in kaldiio.load_scp_sequential(script):
            fbank = knf.OnlineFbank(options)
            fbank.accept_waveform(rate, samples.astype(np.float32).tolist())
            fbank.input_finished()
            writer(key, np.stack([fbank.get_frame(frame) for frame in range(fbank.num_frames_ready)]))


if __name__ == "__main__":
    main(*sys.argv[1:])
