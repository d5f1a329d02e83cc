"""Encoders and codecs of transformers with two layers and random weights, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 48,
}
CONV: dict[str, Any] = {
    "conv_dim": (16,) * 7,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
}
STABLE: dict[str, Any] = {"feat_extract_norm": "layer", "do_stable_layer_norm": True, "conv_bias": True}
STABLE_SEW: dict[str, Any] = {
    "conv_dim": (16,) * 13,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
    "feat_extract_norm": "layer",
    "conv_bias": True,
}
WAVES = ("hubert", "hubert-base", "wavlm", "wav2vec2")
ENCODERS = (*WAVES, "w2v-bert", "whisper")
# Other encoders: lengths by a function, by a mask of the output, behind an adapter, and none at all.
MORE_WAVES = ("sew", "unispeech-sat", "data2vec", "adapter", "moonshine")
MORE_ENCODERS = (*MORE_WAVES, "parakeet", "w2v-bert-adapter", "ast")
CODECS = ("encodec", "mimi", "dac")


def _model(name: str) -> Any:
    import transformers as t

    if name == "hubert":
        return t.HubertModel(t.HubertConfig(**SMALL, **CONV, **STABLE))
    if name == "hubert-base":  # normalizes over time
        return t.HubertModel(t.HubertConfig(**SMALL, **CONV))
    if name == "wavlm":
        return t.WavLMModel(t.WavLMConfig(**SMALL, **CONV, **STABLE))
    if name == "wav2vec2":
        return t.Wav2Vec2Model(t.Wav2Vec2Config(**SMALL, **CONV, **STABLE))
    if name == "w2v-bert":
        return t.Wav2Vec2BertModel(t.Wav2Vec2BertConfig(**SMALL))
    if name == "sew":
        return t.SEWModel(t.SEWConfig(**SMALL, **STABLE_SEW))
    if name == "unispeech-sat":
        return t.UniSpeechSatModel(t.UniSpeechSatConfig(**SMALL, **CONV, **STABLE))
    if name == "data2vec":
        groups = {"conv_dim": (16,) * 7, "num_conv_pos_embeddings": 2, "num_conv_pos_embedding_groups": 2}
        return t.Data2VecAudioModel(t.Data2VecAudioConfig(**SMALL, **groups))
    if name == "adapter":
        return t.Wav2Vec2Model(t.Wav2Vec2Config(**SMALL, **CONV, **STABLE, add_adapter=True))
    if name == "moonshine":
        sizes = {f"{part}_{what}": 2 for part in ("encoder", "decoder")
                 for what in ("num_hidden_layers", "num_attention_heads")}  # fmt: skip
        return t.MoonshineModel(t.MoonshineConfig(vocab_size=50, hidden_size=32, intermediate_size=48, **sizes))
    if name == "parakeet":
        return t.ParakeetEncoder(t.ParakeetEncoderConfig(**SMALL, subsampling_conv_channels=8))
    if name == "w2v-bert-adapter":
        return t.Wav2Vec2BertModel(t.Wav2Vec2BertConfig(**SMALL, add_adapter=True))
    if name == "ast":
        return t.ASTModel(t.ASTConfig(**SMALL))
    if name == "whisper":
        sizes = {f"{part}_{what}": value for part in ("encoder", "decoder")
                 for what, value in (("layers", 3), ("attention_heads", 2), ("ffn_dim", 48))}  # fmt: skip
        tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
        return t.WhisperModel(t.WhisperConfig(d_model=32, vocab_size=100, **tokens, **sizes))
    if name == "encodec":
        return t.EncodecModel(t.EncodecConfig(num_filters=4, hidden_size=16, codebook_size=32, codebook_dim=16,
                                              target_bandwidths=[3.0], norm_type="weight_norm"))  # fmt: skip
    if name == "mimi":
        return t.MimiModel(t.MimiConfig(num_filters=4, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                                        num_key_value_heads=2, intermediate_size=48, codebook_size=32, codebook_dim=16,
                                        vector_quantization_hidden_dimension=16, num_quantizers=4,
                                        num_semantic_quantizers=1, head_dim=16, upsample_groups=16))  # fmt: skip
    return t.DacModel(t.DacConfig(encoder_hidden_size=8, decoder_hidden_size=32, n_codebooks=4, codebook_size=32,
                                  codebook_dim=4, hidden_size=128, downsampling_ratios=[2, 4, 8, 5],
                                  upsampling_ratios=[5, 8, 4, 2]))  # fmt: skip


def _processor(name: str, model: Any) -> Any:
    import transformers as t

    if name in (*WAVES, *MORE_WAVES):
        masked = name != "hubert-base"
        return t.Wav2Vec2FeatureExtractor(do_normalize=True, return_attention_mask=masked)
    if name.startswith("w2v-bert"):
        return t.SeamlessM4TFeatureExtractor()
    if name == "parakeet":
        return t.ParakeetFeatureExtractor()
    if name == "ast":
        return t.ASTFeatureExtractor()
    if name == "whisper":
        return t.WhisperFeatureExtractor()
    if name == "dac":
        return t.DacFeatureExtractor(sampling_rate=model.config.sampling_rate, hop_length=model.config.hop_length)
    return t.EncodecFeatureExtractor(sampling_rate=model.config.sampling_rate)


def save_tiny(name: str, folder: Path) -> Path:
    """Save a model with random weights, and its preprocessor, to a folder, and return it."""
    torch.manual_seed(len(name))
    model = _model(name).eval()
    model.save_pretrained(folder)
    _processor(name, model).save_pretrained(folder)
    return folder
