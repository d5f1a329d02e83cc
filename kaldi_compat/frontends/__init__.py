"""Front ends of published models: from audio to a model's input, as the model's own project computes it.

A preset is data: the feature and its options, the scale of the samples, and the steps that follow. Two classes compute
it, with the same call: :class:`kaldi_compat.Frontend`, a torch module, and
:class:`kaldi_compat.frontends.numpy.Frontend`, which takes NumPy arrays and does not need torch.
"""

from kaldi_compat.frontends.preset import Preset, Source, list_presets
from kaldi_compat.frontends.steps import Step

__all__ = ["Preset", "Source", "Step", "list_presets"]
