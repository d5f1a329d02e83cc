"""APIs of other libraries: torchaudio, kaldifeat and lhotse."""
