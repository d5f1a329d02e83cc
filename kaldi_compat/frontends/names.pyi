# Written by `make generate`: do not edit.
from typing import Literal, TypeAlias

PresetName: TypeAlias = Literal[
    "ast",
    "audiomae",
    "beats",
    "campplus",
    "cosyvoice",
    "eat",
    "eres2net",
    "fireredasr",
    "fsmn-vad",
    "imagebind",
    "kaldi-hires",
    "medasr",
    "paraformer",
    "phi4-multimodal",
    "pyannote-wespeaker",
    "seamless-m4t",
    "sensevoice",
    "speech2text",
    "telespeech",
    "wav2vec2-bert",
    "wenet",
    "wespeaker",
    "zipformer",
]
