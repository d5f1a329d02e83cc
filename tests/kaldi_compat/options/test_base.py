"""Options: types, ranges, names, and what signatures and help say of them."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
import pickle
import pydoc
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kaldi_compat.errors import OptionError
from kaldi_compat.options.base import BaseOptions
from kaldi_compat.options.config import FLOAT32_END, UsageError, get_flags, load_options, parse_real, spell_as_flags
from kaldi_compat.options.declaration import OptionInfo, get_info, option
from kaldi_compat.options.postprocessing import CmvnOptions, DeltaOptions, SpliceOptions
from kaldi_compat.options.spectral import FbankOptions, MfccOptions

OPTIONS = [
    kind
    for module in ("spectral", "pitch", "postprocessing")
    for name, kind in vars(import_module(f"kaldi_compat.options.{module}")).items()
    if name.endswith("Options") and name != "BaseOptions"
]


class Ranges(BaseOptions):
    """An option of each kind of range."""

    above: float = option(1.0, "more", gt=0)
    count: int = option(1, "number", unit="things", ge=1, le=7)
    share: float = option(0.5, "part", gt=0, lt=1)
    finite: float = option(0.0, "finite", gt=-math.inf, lt=math.inf)
    shape: str = option("round", "form", choices=("round", "square"))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("above", 0, "above must be positive, not 0"),
        ("above", math.nan, "above must be positive, not nan"),
        ("count", 8, "count must be from 1 to 7, not 8"),
        ("share", 1.0, "share must be positive and less than 1, not 1"),
        ("finite", -math.inf, "finite must be finite, not -inf"),
        ("finite", math.nan, "finite must be finite, not nan"),
        ("shape", "oval", "shape must be one of round, square, not 'oval'"),
        ("count", 1.0, "count must be an integer of 32 bits, not 1.0"),
    ],
)
def test_value_out_of_range_is_refused(name: str, value: Any, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        Ranges(**{name: value})
    assert str(caught.value) == message


def test_values_at_the_bounds_are_accepted() -> None:
    assert Ranges(above=1e-9, count=7, share=0.999, shape="square").count == 7


UNDECLARED = "the option extra of Wrong must be declared with kaldi_compat.options.declaration.option"


@pytest.mark.parametrize(
    ("kind", "default", "message"),
    [
        (float, option(-1.0, "more", ge=0), "extra must be at least 0, not -1"),
        (str, option("oval", "form", choices=("round", "square")), "extra must be one of round, square, not 'oval'"),
        (float, option(math.nan, "more", gt=0), "extra must be positive, not nan"),
        (int, option(2**40, "more"), "extra must be an integer of 32 bits, not 1099511627776"),
        (float, option(None, "more"), UNDECLARED),  # type: ignore[arg-type]
        (float, 1.0, UNDECLARED),
        (float, dataclasses.MISSING, UNDECLARED),
    ],
)
def test_wrong_default_of_a_subclass_is_refused(kind: type[Any], default: Any, message: str) -> None:
    body = {"__annotations__": {"extra": kind}} | ({} if default is dataclasses.MISSING else {"extra": default})
    with pytest.raises(OptionError) as caught:
        type("Wrong", (BaseOptions,), body)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("kind", OPTIONS)
def test_every_option_refuses_other_types(kind: type[Any]) -> None:
    assert dataclasses.fields(kind)
    for field in dataclasses.fields(kind):
        with pytest.raises(OptionError, match=f"^{field.name} must be"):
            kind(**{field.name: b"1"})


@pytest.mark.parametrize("kind", OPTIONS)
def test_defaults_lie_in_their_ranges(kind: type[Any]) -> None:
    kind()
    assert all(get_info(field).allows(field.default) for field in dataclasses.fields(kind))


@pytest.mark.parametrize(
    ("kind", "wrong", "right"),
    [
        (FbankOptions, "num_mell_bins", "num_mel_bins"),
        (FbankOptions, "n_mels", "num_mel_bins"),
        (FbankOptions, "sample_rate", "sample_frequency"),
        (FbankOptions, "hop_length", "frame_shift"),
        (FbankOptions, "win_length", "frame_length"),
        (FbankOptions, "f_min", "low_freq"),
        (MfccOptions, "n_mfcc", "num_ceps"),
        (DeltaOptions, "order", "delta_order"),
        (CmvnOptions, "norm_var", "norm_vars"),
        (SpliceOptions, "left", "left_context"),
    ],
)
def test_wrong_name_suggests_the_right_one(kind: type[Any], wrong: str, right: str) -> None:
    expected = f"^{kind.__name__} has no option {wrong}: did you mean {right}( \\(in \\w+\\))?\\?$"
    with pytest.raises(OptionError, match=expected):
        kind(**{wrong: 1})
    with pytest.raises(OptionError, match=expected):
        dataclasses.replace(kind(), **{wrong: 1})


def test_name_that_resembles_nothing_points_to_help() -> None:
    with pytest.raises(OptionError, match=r"^SpliceOptions has no option zzz: help\(SpliceOptions\) lists them$"):
        SpliceOptions(zzz=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("kind", OPTIONS)
def test_other_libraries_names_are_not_ours(kind: type[Any]) -> None:
    known = [other for field in dataclasses.fields(kind) for other in get_info(field).known_as]
    assert len(set(known)) == len(known), "one name stands for two options"
    assert not {field.name for field in dataclasses.fields(kind)}.intersection(known)


def test_signature_lists_options_with_defaults() -> None:
    parameter = inspect.signature(FbankOptions).parameters["num_mel_bins"]
    assert (parameter.kind, parameter.default) == (parameter.KEYWORD_ONLY, 23)
    assert list(inspect.signature(FbankOptions).parameters) == [each.name for each in dataclasses.fields(FbankOptions)]


def test_range_with_exclusive_bounds() -> None:
    assert OptionInfo("factor", gt=2, lt=5).range == "greater than 2 and less than 5"
    assert OptionInfo("factor", gt=0, lt=float("inf")).range == "positive and finite"


def test_help_gives_meaning_unit_and_range() -> None:
    text = pydoc.plain(pydoc.render_doc(FbankOptions))
    assert "num_mel_bins (int, default 23): number of triangular mel bins; at least 3" in text
    assert "frame_length (float, default 25.0): length of a frame, in milliseconds; positive" in text
    assert "one of hamming, hanning, povey" in text


def test_options_can_be_copied_pickled_and_compared() -> None:
    options = FbankOptions(num_mel_bins=80)
    assert pickle.loads(pickle.dumps(options)) == copy.deepcopy(options) == options
    assert hash(options) != hash(FbankOptions())


def test_errors_spell_options_as_flags_in_programs() -> None:
    assert spell_as_flags("num_mel_bins must be at least 3, not 2", FbankOptions).startswith("--num-mel-bins must be")
    assert spell_as_flags("a file: dither", FbankOptions) == "a file: dither"


def test_only_the_mistakes_that_make_kaldi_print_usage_are_usage_errors() -> None:
    flags = get_flags(FbankOptions)
    with pytest.raises(UsageError):
        flags["use-energy"].parse("maybe")
    for name, text in (("num-mel-bins", "abc"), ("dither", ""), ("dither", "-1e40"), ("use-energy", "")):
        with pytest.raises(OptionError) as caught:
            flags[name].parse(text)
        assert not isinstance(caught.value, UsageError)


def test_number_that_is_rounded_to_infinity_is_refused() -> None:
    assert parse_real("3.4028235677973362e38", FLOAT32_END) is not None
    assert parse_real(repr(FLOAT32_END), FLOAT32_END) is parse_real("-1e39", FLOAT32_END) is None
    assert parse_real("inf", FLOAT32_END) == float("inf")


@pytest.mark.parametrize("number", [10**400, -(10**5000)], ids=["400 digits", "5000 digits"])
@pytest.mark.parametrize("name", ["num_mel_bins", "low_freq"])
def test_integers_of_any_size_are_refused_in_one_line(name: str, number: int) -> None:
    with pytest.raises(OptionError, match=f"{name} must be .*, not an integer of {number.bit_length()} bits"):
        FbankOptions(**{name: number})


@pytest.mark.parametrize("name", ["--num-mel-bins", "--dither"])
def test_numbers_of_any_length_in_a_configuration_file_are_refused_in_one_line(name: str, tmp_path: Path) -> None:
    file = tmp_path / "fbank.conf"
    file.write_text(f"{name}=1{5000 * '0'}\n")
    with pytest.raises(OptionError, match=rf"fbank\.conf, line 1: {name}=1000*\.\.\.: expected") as caught:
        load_options(FbankOptions, file)
    assert len(str(caught.value)) < 300
    file.write_text(f"--num-mel-bins=+{5000 * '0'}40\n")
    assert load_options(FbankOptions, file).num_mel_bins == 40


def test_unknown_option_of_a_file_in_python_is_answered_by_the_names_of_the_options(tmp_path: Path) -> None:
    path = tmp_path / "x.conf"
    path.write_text("--zzzzzzzz=1\n")
    with pytest.raises(OptionError) as caught:
        load_options(CmvnOptions, path)
    assert str(caught.value) == (
        f"{path}, line 1: there is no option --zzzzzzzz: choose from norm-means, norm-vars, reverse"
    )
