"""kaldiio's ``compression_header``: Kaldi's compression methods (src/matrix/compressed-matrix.h)."""

__all__ = [
    "kAutomaticMethod",
    "kOneByteAuto",
    "kOneByteUnsignedInteger",
    "kOneByteZeroOne",
    "kSpeechFeature",
    "kTwoByteAuto",
    "kTwoByteSignedInteger",
]

kAutomaticMethod, kSpeechFeature, kTwoByteAuto, kTwoByteSignedInteger = 1, 2, 3, 4
kOneByteAuto, kOneByteUnsignedInteger, kOneByteZeroOne = 5, 6, 7
