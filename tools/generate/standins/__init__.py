"""Generated stubs of the stand-ins, for type checkers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tools.generate.standins import kaldi_names, named_options

TARGETS: Mapping[str, Callable[[], str]] = {
    "packages/standins/kaldi_standins/kaldi.pyi": kaldi_names.kaldi_source,
    "packages/standins/kaldi_standins/kaldi_native_fbank/options.pyi": named_options.kaldi_native_fbank_source,
    "packages/standins/kaldi_standins/kaldi_native_io/table_types.pyi": kaldi_names.kaldi_native_io_source,
    "packages/standins/kaldi_standins/kaldifeat/options.pyi": named_options.kaldifeat_source,
    "packages/standins/kaldi_standins/lhotse_config/options.pyi": named_options.lhotse_source,
}
