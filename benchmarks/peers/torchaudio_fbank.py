"""torchaudio's compliance.kaldi, WAV files in, archive out by kaldiio: torchaudio_fbank.py WAV_SCP ARK [DITHER]."""

import sys

import kaldiio
import torch
from torchaudio.compliance.kaldi import fbank


def main(script: str, archive: str, dither: str = "0") -> None:
    torch.set_num_threads(1)
    with kaldiio.WriteHelper(f"ark:{archive}") as writer, torch.inference_mode():
        for key, (rate, samples) in kaldiio.load_scp_sequential(script):
            waveform = torch.from_numpy(samples).float()[None]
            feats = fbank(waveform, sample_frequency=rate, num_mel_bins=80, dither=float(dither))
            writer(key, feats.numpy())


if __name__ == "__main__":
    main(*sys.argv[1:])
