"""Targets come with their utterance, and a missing or unsuitable one is an error that names it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import io_ark
from io_ark.errors import ArkError, FormatError, MissingKeyError
from io_ark.streams.access import Access
from kaldi_compat import (
    ArchiveDataset,
    Fbank,
    FeatureDataset,
    FeaturesOnDevice,
    Posteriors,
    Utterance,
    WaveDataset,
    collate,
)
from kaldi_compat.errors import KaldiCompatError, OptionError
from kaldi_compat.torch.data.batching import ALIGNMENT_PADDING
from kaldi_compat.torch.data.ctm import Ctm, Word
from tests.support.data_directory import KEYS

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


def letters(text: str) -> list[int]:
    return [ord(letter) for letter in text.replace(" ", "")]


def targets(corpus: Path) -> dict[str, Any]:
    return {
        "utt2spk": corpus / "utt2spk",
        "alignments": f"scp:{corpus}/ali.scp",
        "posteriors": f"ark:{corpus}/post.ark",
        "text": corpus / "text",
        "tokenizer": letters,
        "ctm": corpus / "ctm",
        "drop_incomplete": True,
    }


def assert_has_its_targets(utterance: Utterance, posteriors: Any) -> None:
    i = KEYS.index(utterance.key)
    assert (utterance.speaker, utterance.speaker_label) == (f"spk{i % 3}", i % 3)
    assert utterance.text == ("ab " * (i % 4)).strip()
    assert utterance.tokens is not None and utterance.tokens.tolist() == [97, 98] * (i % 4)
    assert utterance.words == (Word(f"word{i}", i / 100, 0.5), Word("end", 1.5, 0.25))
    assert utterance.posteriors is not None
    found = [
        [(c, w) for c, w in zip(classes, weights, strict=True) if w > 0]
        for classes, weights in zip(*(part.tolist() for part in utterance.posteriors), strict=True)
    ]
    assert found == posteriors[utterance.key]
    real = utterance.posteriors.weights > 0
    assert (real[:, 1:] <= real[:, :-1]).all()  # padding comes last


@pytest.mark.parametrize("workers", [0, 2])
def test_all_targets_come_with_their_utterance(corpus: Path, workers: int) -> None:
    posteriors = dict(io_ark.read(f"ark:{corpus}/post.ark", kind="posterior"))
    for data in (
        FeatureDataset(corpus / "feats.scp", **targets(corpus)),
        WaveDataset(corpus / "wav.scp", **targets(corpus)),
        ArchiveDataset(f"ark:{corpus}/feats.ark", **targets(corpus)),
    ):
        assert data.speakers == ["spk0", "spk1", "spk2"]
        loader = DataLoader(
            data, batch_size=None, num_workers=workers, multiprocessing_context="fork" if workers else None
        )
        utterances = list(loader)
        assert sorted(each.key for each in utterances) == sorted(key for i, key in enumerate(KEYS) if i != 7)
        for utterance in utterances:
            assert_has_its_targets(utterance, posteriors)


def test_targets_are_padded_to_a_batch(corpus: Path) -> None:
    data = FeatureDataset(corpus / "feats.scp", **targets(corpus))
    items = [data[i] for i in range(6)]
    batch = collate(items)
    assert batch.speaker_labels.tolist() == [0, 1, 2, 0, 1, 2]  # type: ignore[union-attr]
    assert batch.texts == [item.text for item in items] and batch.words == [item.words for item in items]
    assert batch.tokens is not None and batch.token_lengths is not None
    assert batch.token_lengths.tolist() == [0, 2, 4, 6, 0, 2]
    assert batch.tokens[5].tolist() == [97, 98, *[ALIGNMENT_PADDING] * 4]
    assert batch.posteriors is not None
    for i, item in enumerate(items):
        assert item.posteriors is not None
        frames, most = item.posteriors.classes.shape
        for whole, part in zip(batch.posteriors, item.posteriors, strict=True):
            assert torch.equal(whole[i, :frames, :most], part)
            assert whole[i].sum() == part.sum()
    moved = batch.to("meta")
    assert moved.posteriors is not None and moved.posteriors.weights.device.type == "meta"
    assert collate([items[0], Utterance("b", items[1].input)]).tokens is None


def test_posteriors_give_the_cross_entropy_of_their_dense_form() -> None:
    posteriors = Posteriors(torch.tensor([[2, 1], [0, 0]]), torch.tensor([[0.75, 0.25], [1.0, 0.0]]))
    dense = torch.zeros(2, 4).scatter_add(-1, posteriors.classes, posteriors.weights)
    scores = torch.randn(2, 4)
    expected = torch.nn.functional.cross_entropy(scores, dense, reduction="sum")
    found = -(posteriors.weights * scores.log_softmax(-1).gather(-1, posteriors.classes)).sum()
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("target", "name"),
    [("utt2spk", "speaker"), ("labels", "label"), ("text", "text"), ("ctm", "words"), ("alignments", "alignment"),
     ("posteriors", "posteriors")],
)  # fmt: skip
def test_a_missing_target_is_named_unless_dropped(corpus: Path, tmp_path: Path, target: str, name: str) -> None:
    source = {"utt2spk": "utt2spk", "labels": "labels", "text": "text", "ctm": "ctm"}
    if target in source:
        lines = (corpus / source[target]).read_text().splitlines(keepends=True)
        (tmp_path / "some").write_text("".join(line for line in lines if "utt07" not in line))
        place: Any = tmp_path / "some"
    else:
        place = targets(corpus)[target]
    with pytest.raises(MissingKeyError, match=rf"spk1-utt07: has no {name} in .*drop_incomplete=True"):
        FeatureDataset(corpus / "feats.scp", **{target: place})[7]
    assert len(FeatureDataset(corpus / "feats.scp", drop_incomplete=True, **{target: place})) == 22


def test_posteriors_of_other_lengths_are_cut_or_refused(corpus: Path, tmp_path: Path) -> None:
    frames = FeatureDataset(corpus / "feats.scp").lengths()
    with io_ark.Writer(f"ark:{tmp_path}/post.ark", kind="posterior") as writer:
        for i, key in enumerate(KEYS[:3]):
            writer[key] = [[(0, 1.0)]] * (frames[i] + i)
    data = FeatureDataset(corpus / "feats.scp", posteriors=f"ark:{tmp_path}/post.ark", length_tolerance=1)
    for i in (0, 1):
        assert len(data[i].input) == len(data[i].posteriors.classes) == frames[i]  # type: ignore[union-attr]
    says = rf"utt02: .*input {frames[2]}, posteriors of .*post.ark {frames[2] + 2}.*tolerance=1"
    with pytest.raises(KaldiCompatError, match=says):
        data[2]


def test_lengths_are_compared_with_features_only(corpus: Path) -> None:
    with pytest.raises(OptionError, match="pass feature="):
        WaveDataset(corpus / "wav.scp", length_tolerance=2)
    feature = torch.nn.Unflatten(0, (-1, 80))
    data = WaveDataset(corpus / "wav.scp", alignments=f"scp:{corpus}/ali.scp", feature=feature, length_tolerance=100)
    assert data[3].input.ndim == 2 and len(data[3].input) == len(data[3].alignment)  # type: ignore[arg-type]


def test_features_on_a_device_are_cut_to_their_targets_or_refused(corpus: Path, tmp_path: Path) -> None:
    frames = [(400 + 160 * i - 400) // 160 + 1 for i in range(6)]
    with (
        io_ark.Writer(f"ark:{tmp_path}/ali.ark", kind="int-vector") as alignments,
        io_ark.Writer(f"ark:{tmp_path}/post.ark", kind="posterior") as posteriors,
    ):
        for i, key in enumerate(KEYS[:6]):
            length = frames[i] + (2, 0, -1)[i % 3] if i else frames[i]
            alignments[key] = np.full(length, 5, np.int32)
            posteriors[key] = [[(3, 0.5)]] * length
    for options in ({"alignments": f"ark:{tmp_path}/ali.ark"}, {"posteriors": f"ark:{tmp_path}/post.ark"}):
        data = WaveDataset(corpus / "wav.scp", **options, drop_incomplete=True)
        loader = DataLoader(data, batch_size=6)
        [batch] = FeaturesOnDevice(loader, Fbank(dither=0.0), "cpu", length_tolerance=2)
        lengths = [1, 2, 2, 4, 5, 5]
        assert batch.lengths.tolist() == lengths and batch.inputs.shape[1] == 5
        if batch.alignments is not None:
            assert batch.alignments.tolist() == [[5] * n + [ALIGNMENT_PADDING] * (5 - n) for n in lengths]
        else:
            assert batch.posteriors is not None
            assert batch.posteriors.weights[..., 0].tolist() == [[0.5] * n + [0.0] * (5 - n) for n in lengths]
        for row, length, i in zip(batch.inputs, lengths, range(6), strict=True):
            torch.testing.assert_close(row[:length], Fbank(dither=0.0)(data[i].input)[:length])
            assert not row[length:].any()
        with pytest.raises(KaldiCompatError, match=r"utt03: .*input 4, targets 6\).*tolerance=1"):
            list(FeaturesOnDevice(loader, Fbank(dither=0.0), "cpu", length_tolerance=1))
    shorter = Posteriors(torch.zeros(3, 1), torch.ones(3, 1))
    both = Utterance("a", torch.zeros(5), alignment=torch.zeros(4), posteriors=shorter)
    assert both.target_frames == 3 and replace(both, posteriors=None).target_frames == 4


def test_words_are_scaled_with_the_speed_of_their_audio(corpus: Path) -> None:
    data = WaveDataset(corpus / "wav.scp", speeds=(0.5, 2.0), ctm=corpus / "ctm")
    for i in range(len(data)):
        ratio = len(data[i].input) / (400 + 160 * i)
        assert ratio in (0.5, 2.0)
        assert data[i].words == (Word(f"word{i}", i / 100 * ratio, 0.5 * ratio), Word("end", 1.5 * ratio, 0.25 * ratio))


def test_lines_of_a_ctm_may_be_apart_and_have_a_confidence(tmp_path: Path) -> None:
    (tmp_path / "ctm").write_text(";; comment\na 1 0.5 0.25 x 0.75\nb\tA 0 1 y\n\na 2 1e0 2 é\n")
    ctm = Ctm(f"cat {tmp_path}/ctm |")
    assert dict(ctm) == {"a": (Word("x", 0.5, 0.25, 0.75), Word("é", 1.0, 2.0)), "b": (Word("y", 0.0, 1.0),)}
    with pytest.raises(KeyError):
        ctm["c"]
    with pytest.raises(io_ark.ArkError, match="pipes are disabled"):
        Ctm("true |", Access(pipes=False))
    with pytest.raises(io_ark.ArkError, match="status 3"):
        Ctm("exit 3 |")


@pytest.mark.parametrize("line", ["a 1 0.5 0.25", "a 1 x 0.25 word", "a 1 0.5 0.25 word 0.5 more", "a"])
def test_an_invalid_line_of_a_ctm_is_an_error(tmp_path: Path, line: str) -> None:
    (tmp_path / "ctm").write_text(f"b 1 0 1 y\n{line}\n")
    with pytest.raises(FormatError, match=r"ctm.*: a: expected <channel> <start>"):
        Ctm(tmp_path / "ctm")["a"]


@pytest.mark.parametrize("tokens", [["a"], [0.5], [[1, 2]], 7])
def test_a_tokenizer_that_gives_no_integers_is_refused(corpus: Path, tokens: Any) -> None:
    with pytest.raises(OptionError, match="pass text="):
        FeatureDataset(corpus / "feats.scp", tokenizer=letters)
    data = FeatureDataset(corpus / "feats.scp", text={KEYS[0]: "x"}, tokenizer=lambda _: tokens)
    with pytest.raises(KaldiCompatError, match="spk0-utt00: the tokenizer must return a list of integers"):
        data[0]


def test_numbers_of_tokens_may_be_arrays_of_any_integers(corpus: Path) -> None:
    for tokens in (np.array([3, 4], np.uint16), torch.tensor([3, 4]), (3, 4)):
        data = FeatureDataset(corpus / "feats.scp", text={KEYS[0]: "x"}, tokenizer=lambda _, tokens=tokens: tokens)
        assert data[0].tokens.tolist() == [3, 4]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("options", "number", "says"),
    [
        ({"alignments": "scp:none"}, 0, "none: cannot be opened"),
        ({"alignments": "ali.scp"}, 0, "'ali.scp' is not an rspecifier"),
        ({"alignments": Path("ali.scp")}, 0, "'ali.scp' is not an rspecifier"),
        ({"alignments": "scp:feats.scp"}, 0, r"feats.ark:\d+: utt00: expected a 4-byte integer"),
        (
            {"alignments": "ark:short.ark", "length_tolerance": 1},
            0,
            r"utt00: .*input \d+, alignment of ark:short.ark 2\)",
        ),
        ({"alignments": "ark:short.ark"}, 1, "utt01: has no alignment in ark:short.ark"),
        ({"alignments": "scp:post.scp"}, 0, r"post.ark:\d+: utt00: expected one integer per frame, found several"),
        ({"utt2spk": "twice"}, 0, "twice: utt00: is a duplicate key on line 2"),
        ({"text": "twice"}, 0, "twice: utt00: is a duplicate key on line 2"),
        ({"labels": "words", "parse_label": int}, 0, "utt00: the label 'b' in words is invalid: invalid literal"),
        ({"utt2spk": "empty"}, 0, "utt00: has no speaker in empty"),
    ],
)
def test_an_unsuitable_target_is_one_line_with_its_file_and_key(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], number: int, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(corpus / "feats.scp", "feats.scp")
    for name, content in {"twice": f"{KEYS[0]} a\n{KEYS[0]} b\n", "words": f"{KEYS[0]} b\n", "empty": ""}.items():
        Path(name).write_text(content)
    with io_ark.writer("ark:short.ark") as writer:
        writer[KEYS[0]] = np.zeros(2, np.int32)
    with io_ark.writer("ark,scp:post.ark,post.scp", kind="posterior") as writer:
        writer[KEYS[0]] = [[(7, 0.5), (8, 0.5)]] * 2
    with pytest.raises(
        (KaldiCompatError, ArkError), match=says.replace("utt00", KEYS[0]).replace("utt01", KEYS[1])
    ) as e:
        FeatureDataset("feats.scp", **options)[number]
    assert "\n" not in str(e.value)
