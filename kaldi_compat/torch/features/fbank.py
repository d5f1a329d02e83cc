"""Log-mel filter bank features: Kaldi's src/feat/feature-fbank.cc."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kaldi_compat.functional.array_api import detect_tracing, is_traced_or_differentiated
from kaldi_compat.options.constructors import FbankConstructor
from kaldi_compat.options.extractors import FbankSettings, read_fbank_settings
from kaldi_compat.options.spectral import FbankOptions
from kaldi_compat.torch.features.engines import declare_accelerated
from kaldi_compat.torch.features.spectral import MelFeature
from kaldi_compat.torch.tensors.energies import compute_power_spectrum, floor_energy, raise_to_power
from kaldi_compat.torch.tensors.frames import EPSILON


@declare_accelerated
class Fbank(FbankConstructor, MelFeature):
    """Log-mel filter bank features (Kaldi: compute-fbank-feats).

    The features of a frame are the logs of ``num_mel_bins`` mel energies. ``use_energy`` adds the log energy of the
    frame as the first column, or as the last column with ``htk_compat``. For the options, see
    :class:`~kaldi_compat.options.spectral.FbankOptions`; for the arguments of a call, see
    :meth:`~kaldi_compat.torch.features.spectral.SpectralFeature.forward`.

    >>> import torch
    >>> from kaldi_compat import Fbank
    >>> fbank = Fbank(num_mel_bins=80, dither=0.0)
    >>> fbank(torch.randint(-1000, 1000, (16000,), dtype=torch.int16)).shape
    torch.Size([98, 80])
    """

    Options = FbankOptions
    options: FbankOptions

    @classmethod
    def from_feature_extractor(cls, extractor: Any, **changes: Any) -> Fbank:
        """Return the filter bank that a Hugging Face feature extractor computes from audio in -1 to 1.

        The later steps of the extractor (normalization, stacking, padding) are not included. For complete extractors,
        see :mod:`kaldi_standins.transformers`; for complete front ends, :mod:`kaldi_compat.frontends`.

        Args:
            extractor: an extractor of SpeechToText, SeamlessM4T (Wav2Vec2-BERT), AST, Phi-4-multimodal or LASR; a
                processor that has such an extractor; or the dictionary in its ``preprocessor_config.json``.
            changes: single options by name, such as ``waveform_scale=1.0`` for audio on the scale of 16-bit integers.

        Raises:
            OptionError: the extractor does not compute Kaldi's filter bank, or an option is invalid.

        >>> from kaldi_compat import Fbank
        >>> fbank = Fbank.from_feature_extractor({"feature_extractor_type": "SeamlessM4TFeatureExtractor"})
        >>> fbank.options.num_mel_bins, fbank.options.waveform_scale
        (80, 32768.0)
        """
        return cls._from_settings(read_fbank_settings(extractor), **changes)

    @classmethod
    def _from_settings(cls, settings: FbankSettings, **changes: Any) -> Fbank:
        """Return the filter bank with the settings of a feature extractor. ``changes`` replace single options."""
        fbank = FlooredFbank(settings.options, **changes) if settings.floor else cls(settings.options, **changes)
        fbank._trust_scale()  # The extractor decides the scale of the audio, so no warning is needed.
        if isinstance(fbank, FlooredFbank):
            fbank.floor = settings.floor
        return fbank

    @property
    def _are_log_energies(self) -> bool:
        return self.options.use_log_fbank and not self.options.use_energy

    def energies(self, spectrum: Tensor, filter_bank: Tensor | None) -> Tensor:
        """Compute mel energies (..., num_mel_bins) of the power spectrum, or of the magnitudes without ``use_power``.

        Args:
            spectrum: real and imaginary parts of the spectra, shape (..., fft_bins, 2). May be overwritten.
            filter_bank: mel weights for VTLN, shape (..., fft_bins, num_mel_bins); None for the weights of the module.
        """
        powers = compute_power_spectrum(spectrum, overwrite=not is_traced_or_differentiated(spectrum))
        return self._apply_filter_bank(powers if self.options.use_power else raise_to_power(powers, 0.5), filter_bank)

    def features_of_energies(self, energies: Tensor, log_energy: Tensor | None) -> Tensor:
        """Take the logs of mel energies (with ``use_log_fbank``), and add a column with the log energies of the frames.

        Args:
            energies: mel energies, shape (..., num_mel_bins).
            log_energy: log energies of the frames, shape (...); None without ``use_energy``, to add no column.

        Returns:
            Features of shape (..., dim). The log energy is the first column, or with ``htk_compat`` the last.
        """
        options = self.options
        features = energies.clamp(min=EPSILON).log() if options.use_log_fbank else energies
        if log_energy is None:
            return features
        energy = floor_energy(log_energy, options.energy_floor).unsqueeze(-1)
        return torch.cat((features, energy) if options.htk_compat else (energy, features), -1)

    def _compute_undithered_frames(self, frames: Tensor, filter_bank: Tensor) -> Tensor:
        """Compute the features ``(B, frames, dim)`` of frames ``(B, frames, window_size)`` without dithering.

        For ``filter_bank``, see :meth:`_compute_frames`. For the division into blocks, see :meth:`_compute_in_blocks`.
        """
        return self._compute_in_blocks(frames, None, filter_bank, detect_tracing(frames))


class FlooredFbank(Fbank):
    """Log-mel filter bank features whose mel energies have a floor other than Kaldi's.

    Created by :meth:`Fbank.from_feature_extractor`, and computed by the torch engine.

    Attributes:
        floor: floor of the mel energies before the log.
    """

    floor = EPSILON

    @property
    def _are_log_energies(self) -> bool:
        # If this were True, the Triton kernels would take the logs with Kaldi's floor instead of ``self.floor``.
        return False

    def features_of_energies(self, energies: Tensor, log_energy: Tensor | None) -> Tensor:
        """Compute the features from mel energies, which are first raised to at least ``self.floor``."""
        return super().features_of_energies(energies.clamp(min=self.floor), log_energy)
