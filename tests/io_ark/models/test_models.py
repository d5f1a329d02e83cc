"""Transition models, topologies and trees: files that Kaldi's tools wrote, and properties of alignments."""

from __future__ import annotations

import io
import logging
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import io_ark
from io_ark.codecs import Codec
from io_ark.errors import ArkError, FormatError, TruncatedError
from io_ark.models import (
    PDF_CLASS,
    AlignmentConverter,
    ContextDependency,
    ContextDependencyCodec,
    DiagGmm,
    EventMap,
    HmmState,
    HmmTopology,
    HmmTopologyCodec,
    Leaf,
    Split,
    Table,
    TransitionModel,
    TransitionModelCodec,
    is_reordered,
    split_to_phones,
)
from io_ark.streams.source import BytesSource

FILES = Path(__file__).parents[3] / "reference_data" / "inputs" / "models"
MODELS = {name: io_ark.load(FILES / f"{name}.mdl", kind="transition-model") for name in ("mono", "tri", "chain")}
TREES = {name: io_ark.load(FILES / f"{name}.tree", kind="tree") for name in ("mono", "tri", "chain")}


def encoded(codec: Codec[Any], value: Any, binary: bool) -> bytes:
    sink = io.BytesIO()
    codec.write(sink, value, binary=binary)
    return sink.getvalue()


@pytest.mark.parametrize("name", MODELS)
def test_model_is_written_as_kaldi_wrote_it(name: str) -> None:
    model, codec = MODELS[name], TransitionModelCodec()
    assert (FILES / f"{name}.mdl").read_bytes().startswith(encoded(codec, model, binary=True))
    text = (FILES / f"{name}.txt").read_bytes()
    assert encoded(codec, model, binary=False) == text
    assert encoded(codec, codec.read(BytesSource(text)), binary=False) == text


@pytest.mark.parametrize(("tree", "text"), [("tri.tree", "tritree.txt"), ("chain.tree", "chaintree.txt")])
def test_tree_is_written_as_kaldi_wrote_it(tree: str, text: str) -> None:
    codec = ContextDependencyCodec()
    assert encoded(codec, io_ark.load(FILES / tree, kind="tree"), binary=True) == (FILES / tree).read_bytes()
    assert encoded(codec, io_ark.load(FILES / tree, kind="tree"), binary=False) == (FILES / text).read_bytes()
    assert io_ark.load(FILES / text, kind="tree") == io_ark.load(FILES / tree, kind="tree")


def test_files_are_written_and_read_by_name(tmp_path: Path) -> None:
    model, tree = MODELS["chain"], TREES["chain"]
    for binary in (False, True):
        io_ark.save(tmp_path / "mdl", model, binary=binary)
        io_ark.save(tmp_path / "topo", model.topology, binary=binary)
        io_ark.save(tmp_path / "tree", tree, binary=binary)
        again = io_ark.load(tmp_path / "mdl", kind="transition-model")
        assert again.topology == model.topology == io_ark.load(tmp_path / "topo", kind="topology")
        np.testing.assert_array_equal(again.tuples, model.tuples)
        assert io_ark.load(tmp_path / "tree", kind="tree") == tree


def test_topology_of_a_recipe_is_that_of_its_model() -> None:
    assert io_ark.load(FILES / "topo", kind="topology") == MODELS["mono"].topology == MODELS["tri"].topology


@pytest.mark.parametrize("name", MODELS)
def test_tree_has_the_pdfs_of_its_model(name: str) -> None:
    model, tree = MODELS[name], TREES[name]
    assert tree.num_pdfs == model.num_pdfs
    for phone, hmm_state, forward, self_loop in model.tuples.tolist():
        state = model.topology.entry(phone)[hmm_state]
        for pdf_class, pdf in ((state.forward_pdf_class, forward), (state.self_loop_pdf_class, self_loop)):
            assert pdf in tree.possible_pdfs({tree.central: phone, PDF_CLASS: pdf_class})


@pytest.mark.parametrize("name", MODELS)
def test_maps_agree_with_the_tuples_of_the_model(name: str) -> None:
    """The meaning of each transition-id, followed one by one as Kaldi's ComputeDerived defines it."""
    model, tid = MODELS[name], 0
    for number, (phone, hmm_state, forward, self_loop) in enumerate(model.tuples.tolist(), 1):
        entry = model.topology.entry(phone)
        for index, (target, _) in enumerate(entry[hmm_state].transitions):
            tid += 1
            is_loop = target == hmm_state
            found = [each(tid).tolist() for each in (model.states, model.phones, model.indices)]
            assert found == [number, phone, index]
            assert model.targets(tid) == target
            assert model.pdfs(tid) == (self_loop if is_loop else forward)
            assert (model.are_self_loops(tid), model.maps.is_final[tid]) == (is_loop, target == len(entry) - 1)
    assert tid == model.num_transition_ids == len(model.log_probs) - 1
    ids = np.arange(1, tid + 1).reshape(2, -1)
    assert model.pdfs(ids).shape == ids.shape
    leaving = np.exp(model.non_self_loop_log_probs())[model.states(ids)]
    loops = model.are_self_loops(ids)
    np.testing.assert_allclose(np.exp(model.log_probs[ids[loops]]) + leaving[loops], 1, rtol=1e-5)


def test_transition_id_of_another_model_is_refused() -> None:
    model = MODELS["mono"]
    for ids in ([0], [model.num_transition_ids + 1], [-1]):
        with pytest.raises(FormatError, match="check that the model belongs"):
            model.phones(ids)
    assert model.pdfs([0]).tolist() == [0]


@pytest.mark.parametrize(
    ("codec", "name"),
    [(TransitionModelCodec(), "tri.mdl"), (TransitionModelCodec(), "chain.txt"), (ContextDependencyCodec(), "tri.tree"),
     (ContextDependencyCodec(), "chaintree.txt"), (HmmTopologyCodec(), "topo")],
)  # fmt: skip
def test_damaged_file_is_an_error_with_its_place(codec: Codec[Any], name: str) -> None:
    data = (FILES / name).read_bytes()
    whole = len(encoded(codec, codec.read(BytesSource(data)), binary=data[:1] == b"\0"))
    for end in range(0, whole - 25, 5 if whole < 900 else 23):
        with pytest.raises(ArkError) as caught:
            codec.read(BytesSource(data[:end], name=name))
        assert caught.value.file == name and caught.value.offset is not None
    random = Random(0)
    for _ in range(150):
        damaged = bytearray(data)
        for _ in range(3):
            damaged[random.randrange(len(data))] = random.randrange(256)
        try:
            codec.read(BytesSource(bytes(damaged), name=name))
        except ArkError as error:
            assert error.file == name


@pytest.mark.parametrize("name", ["badprob.txt", "badtopo.txt", "badstate.txt", "cut.mdl", "ali_bad.txt"])
def test_invalid_model_is_refused(name: str) -> None:
    with pytest.raises(FormatError):
        io_ark.load(FILES / name, kind="transition-model")


def test_unsorted_question_is_refused(tmp_path: Path) -> None:
    text = (FILES / "tritree.txt").read_text()
    path = tmp_path / "tree"
    for values in "[ 1 1 2 ]", "[ -2 1 ]":
        path.write_text(text.replace("[ 1 2 ]", values, 1))
        assert io_ark.load(path, kind="tree") != TREES["tri"]
    path.write_text(text.replace("[ 1 2 ]", "[ 2 1 ]", 1))
    with pytest.raises(FormatError, match="not in ascending order"):
        io_ark.load(path, kind="tree")


def test_size_beyond_the_file_takes_no_memory() -> None:
    data = (FILES / "tri.mdl").read_bytes()
    at = data.index(b"<Triples> ") + len(b"<Triples> ")
    with pytest.raises(TruncatedError, match=r"expected \d+ more bytes"):
        TransitionModelCodec().read(BytesSource(data[:at] + b"\4\xff\xff\xff\x7f" + data[at + 5 :]))


def test_deeply_nested_tree_does_not_recurse() -> None:
    node: EventMap = Leaf(0)
    for depth in range(20_000):
        node = Split(0, (depth,), node, Leaf(depth))
    data = encoded(ContextDependencyCodec(), ContextDependency(1, 0, node), binary=True)
    tree = ContextDependencyCodec().read(BytesSource(data))
    assert tree.num_pdfs == 20_000
    assert tree.pdf([5], 0) == 19_999
    assert encoded(ContextDependencyCodec(), tree, binary=True) == data


@pytest.mark.parametrize("binary", [True, False])
def test_tree_of_one_leaf_is_read_back(binary: bool) -> None:
    tree, codec = ContextDependency(1, 0, Leaf(7)), ContextDependencyCodec()
    assert codec.read(BytesSource(encoded(codec, tree, binary))) == tree


def test_tree_without_an_answer_gives_none() -> None:
    tree = ContextDependency(1, 0, Table(0, (None, Split(PDF_CLASS, (0, 2), Leaf(3), Leaf(4)))))
    assert [tree.pdf([1], pdf_class) for pdf_class in range(3)] == [3, 4, 3]
    assert [tree.pdf([phone], 0) for phone in (-1, 0, 2)] == [None, None, None]
    with pytest.raises(FormatError, match="expected 1 phones, the width of the tree"):
        tree.pdf([1, 1], 0)


def state(forward: int, self_loop: int, *transitions: tuple[int, float]) -> HmmState:
    return HmmState(forward, self_loop, transitions)


FINAL = HmmState()


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ((FINAL,), "an emitting state and a final state"),
        ((state(0, 0, (1, 1.0)), state(0, 0)), "the last state"),
        ((state(0, 0, (1, 1.0)), state(-1, -1, (1, 1.0))), "the last state"),
        ((state(0, 0, (1, 0.0)), FINAL), "has the probability 0"),
        ((state(0, 0, (5, 1.0)), FINAL), "the last state is 1"),
        ((state(0, 0, (1, 0.5), (1, 0.5)), FINAL), "two transitions to the same state"),
        ((state(0, 0, (2, 1.0)), state(0, 0, (2, 1.0)), FINAL), "no transition leads to state 1"),
        ((state(1, 1, (1, 1.0)), FINAL), "pdf-classes"),
        ((state(-1, -1, (1, 1.0)), FINAL), "emits no frame"),
        ((state(0, 0), FINAL), "has no transitions"),
        ((state(0, 0, (0, 1.0)), FINAL), "no transition leads to state 1"),
        (
            (state(-1, -1, (2, 0.5), (1, 0.5)), state(0, 0, (2, 1.0)), state(0, 0, (3, 1.0)), FINAL),
            "is a self-loop of a state that emits no frames",
        ),
    ],
)
def test_invalid_topology_is_refused(entry: tuple[HmmState, ...], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        HmmTopology.of({1: entry})


def test_text_of_a_topology_has_the_digits_of_floats() -> None:
    """Kaldi's probability is a float, so ``os << probability`` writes 0.1234567, and not the double's 0.1234568."""
    topology = HmmTopology.of({1: (state(0, 0, (0, 0.12345675000001), (1, 0.87654324999999)), FINAL)})
    assert b" <Transition> 0 0.1234567 <Transition> 1 0.8765432 </State>" in encoded(
        HmmTopologyCodec(), topology, binary=False
    )


@pytest.mark.parametrize("phones", [(-1,), (-5, 2), (0, 1)])
def test_a_topology_refuses_phones_below_1(phones: tuple[int, ...]) -> None:
    entry = (state(0, 0, (0, 0.5), (1, 0.5)), FINAL)
    with pytest.raises(FormatError, match=f"invalid phone {phones[0]}: number"):
        HmmTopology.of(dict.fromkeys(phones, entry))


def test_a_self_loop_of_almost_1_is_left() -> None:
    """In C, ``1.0 - expf(-3e-8f)`` is 5.96046e-08, so Kaldi does not raise the probability to 1e-10."""
    topology = HmmTopology.of({1: (state(0, 0, (0, 0.5), (1, 0.5)), FINAL)})
    model = TransitionModel(topology, np.array([[1, 0, 0, 0]], np.int32), np.array([0, -3e-8, -17], np.float32))
    assert np.exp(model.non_self_loop_log_probs()[1]) == pytest.approx(5.96046e-08)


def test_probabilities_that_do_not_add_up_to_one_get_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    for total, warns in ((1.005, False), (1.05, True), (0.95, True)):
        caplog.clear()
        HmmTopology.of({1: (state(0, 0, (0, 0.5), (1, total - 0.5)), FINAL)})
        assert ("Total probability for state 0" in caplog.text) == warns


def test_probabilities_are_added_in_single_precision_as_in_kaldi(caplog: pytest.LogCaptureFixture) -> None:
    # The float32 sum is below 1.01. The float64 sum of the same probabilities is above.
    three = tuple((target, float(np.float32(share))) for target, share in ((0, 0.01), (1, 0.02), (2, 0.98)))
    HmmTopology.of({1: (state(0, 0, *three), state(1, 1, (2, 1.0)), FINAL)})
    assert "Total probability" not in caplog.text
    HmmTopology.of({1: (state(0, 0, (0, 0.6172839), (1, 0.617284)), FINAL)})
    assert "Total probability for state 0 in topology entry is 1.23457" in caplog.text


def test_log_probabilities_are_those_of_the_c_library() -> None:
    entry = (state(0, 0, (0, 0.7), (1, 0.3)), state(1, 1, (1, 0.65), (2, 0.36)), FINAL)
    model = TransitionModel.of(HmmTopology.of({1: entry}), [(1, 0, 0, 0), (1, 1, 1, 1)])
    # Nine digits of logf(), which identify a float32.
    expected = np.float32([-0.356674969, -1.20397282, -0.430782944, -1.02165115])
    assert model.log_probs[1:].tolist() == expected.tolist()
    # The correctly rounded logarithms of these two probabilities are 0x1.237208p+1 and 0x1.0cf956p+0.
    close = TransitionModel.of(HmmTopology.of({1: (state(0, 0, (0, 0.1026), (1, 0.3497)), FINAL)}), [(1, 0, 0, 0)])
    assert close.log_probs[1:].tolist() == [-float.fromhex("0x1.237206p+1"), -float.fromhex("0x1.0cf958p+0")]


def test_probabilities_that_floats_cannot_store(caplog: pytest.LogCaptureFixture) -> None:
    """1e-60 is 0 in single precision, which Kaldi refuses, and 1e300 is infinite."""
    with pytest.raises(FormatError, match="has the probability 1e-60: write a positive number"):
        HmmTopology.of({1: (state(0, 0, (0, 1.0), (1, 1e-60)), FINAL)})
    HmmTopology.of({1: (state(0, 0, (0, 0.5), (1, 1e300)), FINAL)})
    assert "Total probability for state 0 in topology entry is inf" in caplog.text


def test_states_that_emit_nothing_take_no_frame() -> None:
    entry = (state(-1, -1, (1, 1.0)), state(0, 0, (1, 0.5), (2, 0.5)), FINAL)
    assert HmmTopology.of({1: entry}).min_length(1) == 1


def test_an_hmm_without_a_path_to_the_final_state_has_no_length() -> None:
    entry = (state(0, 0, (0, 1.0)), state(1, 1, (2, 1.0)), state(2, 2, (1, 0.5), (3, 0.5)), FINAL)
    with pytest.raises(FormatError, match="phone 1 has no path to its final state"):
        HmmTopology.of({1: entry}).min_length(1)


@pytest.mark.parametrize("phone", [b"0", b"-1", b"2147483648", b"2000000000"])
def test_phone_out_of_range_is_refused(phone: bytes) -> None:
    text = (FILES / "topo").read_bytes()
    begin = text.index(b"<ForPhones>") + len(b"<ForPhones>")
    end = text.index(b"</ForPhones>")
    with pytest.raises(FormatError, match=r"expected the number of a phone|of the topology is too large"):
        HmmTopologyCodec().read(BytesSource(text[:begin] + b"\n" + phone + b"\n" + text[end:]))


@pytest.mark.parametrize(
    ("tuples", "message"),
    [([(3, 0, 0, 0)] * 2, "has state 0 of phone 3 twice"), ([(3, -1, 0, 0)], "is not in the topology")],
)
def test_invalid_states_of_a_model_are_refused(tuples: list[tuple[int, ...]], message: str) -> None:
    topology = HmmTopology.of({3: (state(0, 0, (0, 0.75), (1, 0.25)), FINAL)})
    with pytest.raises(FormatError, match=message):
        TransitionModel(topology, np.array(tuples, np.int32), np.log(np.full(5, 0.5, np.float32))).check()


def test_model_of_a_topology_has_its_probabilities() -> None:
    model = TransitionModel.of(HmmTopology.of({3: (state(0, 0, (0, 0.75), (1, 0.25)), FINAL)}), [(3, 0, 0, 0)])
    np.testing.assert_allclose(np.exp(model.log_probs[1:]), [0.75, 0.25], rtol=1e-6)
    with pytest.raises(FormatError, match="no phone 4"):
        TransitionModel.of(model.topology, [(4, 0, 0, 0)])
    with pytest.raises(FormatError, match="not in the topology"):
        TransitionModel.of(model.topology, [(3, 5, 0, 0)])


def test_models_read_twice_are_equal() -> None:
    again = io_ark.load(FILES / "mono.mdl", kind="transition-model")
    assert again == MODELS["mono"]
    assert {again, MODELS["mono"]} == {again}
    assert again != MODELS["tri"]
    assert again != TransitionModel(again.topology, again.tuples, again.log_probs - 1)
    fewer = HmmTopology(again.topology.phones[1:], again.topology.entry_of, again.topology.entries)
    assert again != TransitionModel(fewer, again.tuples, again.log_probs)
    assert again != again.topology


def test_self_loop_of_probability_one_warns(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "io_ark"):
        model = TransitionModel.of(HmmTopology.of({1: (state(0, 0, (0, 1.0), (1, 0.5)), FINAL)}), [(1, 0, 0, 0)])
    assert "non-self-loop prob is 0" in caplog.text
    assert model.non_self_loop_log_probs()[1] == np.log(np.float32(1e-10))


# The phones of an alignment, and how many self-loops each has. No phone follows itself: in chain models, nothing tells
# then on which side of its transition a self-loop belongs.
PHONES = st.lists(st.tuples(st.sampled_from([1, 2, 3, 4, 5, 7]), st.integers(0, 6)), max_size=6).filter(
    lambda phones: all(one[0] != other[0] for one, other in pairwise(phones))
)


def aligned(name: str, phones: list[tuple[int, int]], reorder: bool) -> tuple[np.ndarray[Any, Any], list[int]]:
    """Return an alignment of phones that visits all states, made without the code under test, and the phones' lengths.

    The first state of a phone has as many self-loops as the phone's second number says, and each other state has one.
    """
    model, tree = MODELS[name], TREES[name]
    ids: list[int] = []
    lengths = []
    for i, (phone, more) in enumerate(phones):
        before = len(ids)
        places = range(i - tree.central, i + tree.width - tree.central)
        window = [phones[j][0] if 0 <= j < len(phones) else 0 for j in places]
        entry = model.topology.entry(phone)
        for number, found in enumerate(entry[:-1]):
            pdfs = [tree.pdf(window, each) for each in (found.forward_pdf_class, found.self_loop_pdf_class)]
            states = model.states_of(np.array([phone, number, *pdfs]))
            assert states.dtype == np.int32
            first = int(model.first_ids[states])
            targets = [to for to, _ in found.transitions]
            path = [first + targets.index(number)] * (1 if number else more)
            path.insert(0 if reorder else len(path), first + targets.index(number + 1))
            ids += path
        lengths.append(len(ids) - before)
    return np.array(ids, np.int32), lengths


@pytest.mark.parametrize("name", MODELS)
@given(utterances=st.lists(PHONES, min_size=1, max_size=4), reorder=st.booleans())
def test_alignments_split_into_their_phones(name: str, utterances: list[Any], reorder: bool) -> None:
    model = MODELS[name]
    parts = [aligned(name, phones, reorder) for phones in utterances]
    bounds = np.cumsum([0, *(len(ids) for ids, _ in parts)])
    together = split_to_phones(model, np.concatenate([ids for ids, _ in parts]), bounds)
    assert together.phones.tolist() == [phone for phones in utterances for phone, _ in phones]
    assert together.lengths.tolist() == [length for _, lengths in parts for length in lengths]
    assert together.counts.tolist() == [len(phones) for phones in utterances]
    assert together.complete.all()
    for ids, _ in parts:
        assert split_to_phones(model, ids).complete.tolist() == [True]
        if model.are_self_loops(ids).any():
            assert is_reordered(model, ids).tolist() == [reorder]


@pytest.mark.parametrize("name", MODELS)
@given(phones=PHONES.filter(bool), reorder=st.booleans(), again=st.booleans())
def test_conversion_to_the_same_model_only_reorders(name: str, phones: Any, reorder: bool, again: bool) -> None:
    model, tree = MODELS[name], TREES[name]
    (ids, _), (wanted, _) = aligned(name, phones, reorder), aligned(name, phones, again)
    converted = AlignmentConverter(model, model, tree, reorder=again).convert(ids)
    assert converted is not None
    if model.are_self_loops(ids).any() or reorder == again:
        assert converted.tolist() == wanted.tolist()


@given(phones=PHONES.filter(bool), subsampling=st.integers(1, 4), repeat=st.booleans())
def test_conversion_to_other_topology_keeps_phones(phones: Any, subsampling: int, repeat: bool) -> None:
    old, new, tree = MODELS["mono"], MODELS["chain"], TREES["chain"]
    ids, _ = aligned("mono", phones, True)
    converter = AlignmentConverter(old, new, tree, subsampling=subsampling, repeat_frames=repeat)
    converted = converter.convert(ids)
    if converted is None:
        assert len(ids) // subsampling < len(phones)
        return
    assert len(converted) == (len(ids) if repeat else (len(ids) + subsampling - 1) // subsampling)
    if not repeat or subsampling == 1:
        assert split_to_phones(new, converted).phones.tolist() == [phone for phone, _ in phones]
        back = AlignmentConverter(new, old, TREES["mono"], subsampling=1).convert(converted)
        if back is not None:
            segments = split_to_phones(old, back)
            assert segments.phones.tolist() == [phone for phone, _ in phones] and segments.complete.all()


def test_truncated_alignment_is_not_complete() -> None:
    model = MODELS["mono"]
    ids, lengths = aligned("mono", [(2, 3), (3, 2), (1, 4)], True)
    ends = np.cumsum([0, *lengths])
    for end in range(1, len(ids)):
        # Without the last self-loops, a phone of a reordered alignment still ends by its final transition.
        whole = any(
            begin < end <= stop and model.maps.is_final[ids[begin:end]].any() for begin, stop in pairwise(ends.tolist())
        )
        assert split_to_phones(model, ids[:end]).complete.tolist() == [whole]
    assert split_to_phones(model, ids[1:]).complete.tolist() == [bool(model.tuples[model.states(ids[1]) - 1, 1] == 0)]
    assert AlignmentConverter(model, model, TREES["mono"]).convert(ids[:2]) is None


def test_alignment_of_another_model_is_refused() -> None:
    model = MODELS["mono"]
    loops = np.flatnonzero(model.are_self_loops(np.arange(1, model.num_transition_ids + 1))) + 1
    with pytest.raises(FormatError, match="two states in succession"):
        split_to_phones(model, loops[:2])
    with pytest.raises(FormatError, match="no entry for phone 2"):
        AlignmentConverter(model, model, TREES["mono"], phone_map={1: 1}).convert(aligned("mono", [(2, 0)], True)[0])
    with pytest.raises(FormatError, match="belong together"):
        AlignmentConverter(model, MODELS["tri"], TREES["mono"]).convert(aligned("mono", [(7, 0)], True)[0])


# Conversion. Kaldi's ConvertAlignment counts the frames of a phone that stay at a shift: those whose time, with the
# shift added, is the last of a group of `subsampling` frames.


def kept_frames(lengths: list[int], subsampling: int, shift: int) -> list[int]:
    ends = np.cumsum([0, *lengths]) + shift
    return [int(stop // subsampling - begin // subsampling) for begin, stop in pairwise(ends)]


LONG = [(2, 5), (3, 9), (1, 7), (4, 12)]


@pytest.mark.parametrize("subsampling", [1, 2, 3])
@pytest.mark.parametrize(("old", "new"), [("mono", "chain"), ("mono", "mono"), ("tri", "tri")])
def test_phones_keep_the_last_frame_of_each_group(old: str, new: str, subsampling: int) -> None:
    ids, lengths = aligned(old, LONG, True)
    converted = AlignmentConverter(MODELS[old], MODELS[new], TREES[new], subsampling=subsampling).convert(ids)
    segments = split_to_phones(MODELS[new], converted)
    assert segments.lengths.tolist() == kept_frames(lengths, subsampling, subsampling - 1)
    assert segments.phones.tolist() == [phone for phone, _ in LONG] and segments.complete.all()


def test_repeated_frames_are_those_of_each_shift_in_turn() -> None:
    ids, lengths = aligned("mono", LONG, True)
    old, new = MODELS["mono"], MODELS["chain"]
    converted = AlignmentConverter(old, new, TREES["chain"], subsampling=3, repeat_frames=True).convert(ids)
    assert converted is not None and len(converted) == len(ids)
    for place in range(3):
        segments = split_to_phones(new, converted[place::3])
        assert segments.lengths.tolist() == kept_frames(lengths, 3, 2 - place)


@pytest.mark.parametrize(
    ("lengths", "converted"),
    [
        ([3, 3, 20, 3, 3], [1, 1, 4, 1, 1]),  # of 1, 1, 5, 1 and 0 frames
        ([9, 3, 8], [2, 1, 2]),  # of 3, 0 and 2 frames: in a tie the earlier phone gives one
        ([9, 3, 3, 8], [2, 1, 1, 2]),  # of 3, 0, 1 and 2 frames
        ([10, 3, 3, 9], [3, 1, 1, 2]),  # of 3, 1, 0 and 3 frames: the nearer one is behind
        ([4, 4], [1, 1]),
        ([13, 3, 3, 3, 3, 3], [2, 1, 1, 1, 1, 1]),  # of 4, 0, 1, 1, 1 and 0 frames: the first gives two
        ([5, 3, 3, 3, 3, 3], None),  # of 2, 0, 1, 1, 1 and 0 frames: the first can give only one
        ([3, 3, 3, 3, 3], None),  # of 3 frames in all
    ],
)
def test_phone_without_a_frame_gets_one_of_the_nearest_phone(lengths: list[int], converted: list[int] | None) -> None:
    mono, chain = MODELS["mono"], MODELS["chain"]
    phones = [(2 + number % 2, length - 3) for number, length in enumerate(lengths)]
    ids = np.concatenate([_of_length(phone, more + 3) for phone, more in phones])
    found = AlignmentConverter(mono, chain, TREES["chain"], subsampling=4).convert(ids)
    if converted is None:
        assert found is None
    else:
        assert split_to_phones(chain, found).lengths.tolist() == converted


def _of_length(phone: int, length: int) -> np.ndarray[Any, Any]:
    """Return transition-ids of a monophone with one frame for each state, and the other frames in the first."""
    model, tree = MODELS["mono"], TREES["mono"]
    ids: list[int] = []
    entry = model.topology.entry(phone)
    for number, found in enumerate(entry[:-1]):
        pdf = tree.pdf([phone], found.forward_pdf_class)
        first = int(model.first_ids[model.states_of(np.array([phone, number, pdf, pdf]))])
        targets = [to for to, _ in found.transitions]
        loops = 0 if number else length - len(entry) + 1
        ids += [first + targets.index(number + 1)] + [first + targets.index(number)] * loops
    return np.array(ids)


def test_alignments_are_converted_together_as_one_by_one() -> None:
    old, new, tree = MODELS["mono"], MODELS["chain"], TREES["chain"]
    whole = [aligned("mono", phones, True)[0] for phones in (LONG, [(3, 6), (2, 8)], LONG[::-1])]
    short = np.concatenate([_of_length(phone, 3) for phone in (2, 3, 2, 3, 2)])
    parts = [whole[0], short, whole[1][:-4][:5], whole[1], short, whole[2]]
    bounds = np.cumsum([0, *map(len, parts)])
    converter = AlignmentConverter(old, new, tree, subsampling=4)
    together = converter.convert_many(np.concatenate(parts), bounds)
    assert together.is_truncated.tolist() == [False, False, True, False, False, False]
    assert together.is_short.tolist() == [False, True, False, False, True, False]
    assert np.diff(together.bounds).tolist() == [len(parts[i]) + 3 >> 2 if i in (0, 3, 5) else 0 for i in range(6)]
    for number in (0, 3, 5):
        ids = together.ids[together.bounds[number] : together.bounds[number + 1]]
        alone = converter.convert(parts[number])
        for name in ("phones", "lengths"):
            one, other = (getattr(split_to_phones(new, each), name).tolist() for each in (ids, alone))
            assert one == other


def test_phones_are_those_of_the_map() -> None:
    model, tree = MODELS["mono"], TREES["mono"]
    ids, lengths = aligned("mono", [(2, 3), (3, 2), (2, 4)], True)
    converted = AlignmentConverter(model, model, tree, phone_map={2: 5, 3: 4, 9: 9}).convert(ids)
    segments = split_to_phones(model, converted)
    assert segments.phones.tolist() == [5, 4, 5] and segments.lengths.tolist() == lengths


def test_path_of_a_phone_has_exactly_its_frames_or_there_is_none() -> None:
    single = HmmTopology.of({1: (state(0, 0, (0, 0.5), (1, 0.5)), FINAL)})
    pairs = HmmTopology.of({1: (state(0, 0, (1, 1.0)), state(1, 1, (0, 0.5), (2, 0.5)), FINAL)})
    old = TransitionModel.of(single, [(1, 0, 0, 0)])
    new = TransitionModel.of(pairs, [(1, 0, 0, 0), (1, 1, 1, 1)])
    tree = ContextDependency(1, 0, Split(PDF_CLASS, (0,), Leaf(0), Leaf(1)))
    for frames in (2, 4, 6):
        converted = AlignmentConverter(old, new, tree).convert([2] + [1] * (frames - 1))
        assert converted is not None and new.pdfs(converted).tolist() == [0, 1] * (frames // 2)
    with pytest.raises(FormatError, match="phone 1 has no path of 3 frames"):
        AlignmentConverter(old, new, tree).convert([2, 1, 1])
    with pytest.raises(FormatError, match=r"the tree has no pdf for the phones 1: check the phone map$"):
        AlignmentConverter(old, new, ContextDependency(1, 0, Table(0, (Leaf(0),)))).convert([2, 1])


def test_all_paths_of_a_phone_occur() -> None:
    """A path of 4 frames through two states with self-loops changes the state after 1, 2 or 3 frames."""
    two = HmmTopology.of({1: (state(0, 0, (0, 0.9), (1, 0.1)), state(1, 1, (1, 0.9), (2, 0.1)), FINAL)})
    old = TransitionModel.of(HmmTopology.of({1: (state(0, 0, (0, 0.5), (1, 0.5)), FINAL)}), [(1, 0, 0, 0)])
    new = TransitionModel.of(two, [(1, 0, 0, 0), (1, 1, 1, 1)])
    tree = ContextDependency(1, 0, Split(PDF_CLASS, (0,), Leaf(0), Leaf(1)))
    converter = AlignmentConverter(old, new, tree)
    found = [tuple(new.pdfs(converter.convert([2, 1, 1, 1])).tolist()) for _ in range(60)]
    assert set(found) == {(0, 0, 0, 1), (0, 0, 1, 1), (0, 1, 1, 1)}


@pytest.mark.parametrize("name", MODELS)
def test_pdf_classes_are_those_of_the_topology(name: str) -> None:
    model = MODELS[name]
    for number, (phone, hmm_state) in enumerate(model.tuples[:, :2].tolist(), 1):
        of_topology = model.topology.entry(phone)[hmm_state]
        assert model.pdf_classes(number) == (of_topology.forward_pdf_class, of_topology.self_loop_pdf_class)
    counts = {len({*sum((model.pdf_classes(n) for n in range(1, len(model.tuples) + 1)
                         if model.tuples[n - 1, 0] == phone), ())}) for phone in model.topology.phones}  # fmt: skip
    assert counts == {model.topology.num_pdf_classes(phone) for phone in model.topology.phones}


def test_states_of_a_model_are_in_ascending_order_and_occur_once() -> None:
    entry = (state(0, 0, (0, 0.75), (1, 0.25)), FINAL)
    topology = HmmTopology.of({3: entry, 1: entry})
    model = TransitionModel.of(topology, [(3, 0, 0, 0), (1, 0, 2, 2), (1, 0, 1, 1), (3, 0, 0, 0)])
    assert model.tuples.tolist() == [[1, 0, 1, 1], [1, 0, 2, 2], [3, 0, 0, 0]]
    assert topology.phones == (1, 3) and topology.entry_of == (-1, 0, -1, 0) and len(topology.entries) == 1
    assert repr(model) == "TransitionModel(num_transition_ids=6, num_pdfs=3)"
    assert (model.num_transition_states, model.first_ids.tolist()) == (3, [0, 1, 3, 5, 7])


@pytest.mark.parametrize(
    ("tuples", "log_probs", "message"),
    [
        ([], [0.0], "has no transitions"),
        ([(3, 0, 0, 0)], [0.0, -0.1], "has 2 transition-ids, but only 1 log-probs"),
        ([(3, 0, 0, 0)], [0.0, -0.1, 0.1], "positive or not finite"),
        ([(3, 0, 0, 0)], [0.0, -np.inf, -0.1], "positive or not finite"),
        ([(3, 0, 1, 1), (3, 0, 0, 0)], [0.0] + [-0.7] * 4, "not in ascending order"),
        ([(3, 2, 0, 0)], [0.0, -0.1], "is not in the topology"),
        ([(4, 0, 0, 0)], [0.0, -0.1], "no phone 4"),
    ],
)
def test_inconsistent_model_is_refused(tuples: Any, log_probs: list[float], message: str) -> None:
    topology = HmmTopology.of({3: (state(0, 0, (0, 0.75), (1, 0.25)), FINAL)})
    model = TransitionModel(topology, np.array(tuples, np.int32).reshape(-1, 4), np.array(log_probs, np.float32))
    with pytest.raises(FormatError, match=message):
        model.check()


@pytest.mark.parametrize(
    ("phones", "entry_of", "message"),
    [((1, 2), (-1, 0), "has no HMM"), ((0, 1), (0, 2), "has no HMM"), ((0,), (0,), "has no phones"), ((), (), "empty")],
)
def test_topology_whose_phones_and_hmms_do_not_fit_is_refused(phones: Any, entry_of: Any, message: str) -> None:
    entries = tuple((state(0, 0, (0, number), (1, 1 - number)), FINAL) for number in (0.5, 0.25))
    with pytest.raises(FormatError, match=message):
        HmmTopology(phones, entry_of, entries).check()


ENTRY = "<TopologyEntry> <ForPhones> {} </ForPhones> {} </TopologyEntry> "
STATES = "<State> 0 <PdfClass> 0 <Transition> 0 0.5 <Transition> 1 0.5 </State> <State> 1 </State>"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ENTRY.format("1 2", STATES) + ENTRY.format("2", STATES), "phone 2 is in two entries"),
        (ENTRY.format("1", STATES.replace("<State> 1", "<State> 2")), "expected state 1 of an HMM, found 2"),
        (ENTRY.format("1", STATES.replace("<Transition> 1 0.5", "<Final> 1")), "expected '<Transition>' or '</State>'"),
        ("<Entry> ", "expected '</Topology>' or '<TopologyEntry>', found '<Entry>'"),
    ],
)
def test_invalid_text_of_a_topology_is_refused(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        HmmTopologyCodec().read(BytesSource(f"<Topology> {text}</Topology> \n".encode()))


def test_end_of_the_file_ends_a_topology() -> None:
    whole, ended = (
        HmmTopologyCodec().read(BytesSource(f"<Topology> {ENTRY.format('1 2', STATES)}{end}".encode()))
        for end in ("</Topology> \n", "")
    )
    assert whole == ended and whole.phones == (1, 2)


def read_tree(text: str) -> ContextDependency:
    return ContextDependencyCodec().read(BytesSource(f"ContextDependency 3 1 {text} EndContextDependency ".encode()))


def test_tree_of_an_old_kaldi_has_lengths_before_its_pdfs() -> None:
    tree = ContextDependency(3, 1, Table(1, (None, Leaf(7))))
    assert read_tree("ToLength SE 0 [ 1 ]\n{ CE 3 CE 4 } ToPdf TE 1 2 ( NULL CE 7 )") == tree
    assert read_tree("ToPdf TE 1 2 ( NULL CE 7 )") == tree


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ToPdf NULL", "the tree has no root"),
        ("ToPdf SE 0 [ 1 ]\n{ NULL CE 1 }", "an empty child"),
        ("ToPdf SE 0 [ 1 ]\n{ CE 1 NULL }", "an empty child"),
        ("ToPdf TE 0 1 ( CE 1 CE 1 )", r"expected '\)', found 'CE'"),
        ("ToPdf TE 0 -1 ( )", "number of children of a table is negative"),
    ],
)
def test_invalid_tree_is_refused(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_tree(text)


def test_size_of_a_table_is_marked_as_unsigned() -> None:
    codec = ContextDependencyCodec()
    data = encoded(codec, ContextDependency(1, 0, Table(0, (None, Leaf(7)))), binary=True)
    assert data.count(b"\xfc\2\0\0\0") == 1
    with pytest.raises(FormatError, match="marked by a byte -4"):
        codec.read(BytesSource(data.replace(b"\xfc\2\0\0\0", b"\4\2\0\0\0")))


def test_answers_of_a_tree_are_those_of_its_questions() -> None:
    """Windows with values on both sides of those that the nodes list, against a walk from node to node."""
    yes = Table(1, (Leaf(0), None, Split(PDF_CLASS, (1,), Leaf(1), Leaf(2))))
    no = Split(1, (3,), Split(9, (1,), Leaf(8), Leaf(9)), Split(PDF_CLASS, (0, 2), Leaf(4), Leaf(5)))
    root = Split(0, (2, 5), yes, no)
    tree = ContextDependency(2, 1, root)
    for event in np.ndindex(8, 6, 3):
        node: EventMap | None = root
        values = {0: event[0], 1: event[1], PDF_CLASS: event[2]}
        while node is not None and not isinstance(node, Leaf):
            if isinstance(node, Table):
                value = values[node.key]
                node = node.children[value] if value < len(node.children) else None
            elif node.key not in values:
                node = None  # no event has an answer without the key
            else:
                node = node.yes if values[node.key] in node.values else node.no
        assert tree.pdf(event[:2], event[2]) == (node.pdf if node else None), event
    assert tree.num_pdfs == 10
    assert tree.possible_pdfs({0: 2, 1: 2}) == [1, 2] and tree.possible_pdfs({0: 1, 1: 0}) == [4, 5]
    assert tree.possible_pdfs({0: 2, 1: 7}) == [] and tree.possible_pdfs({PDF_CLASS: 1, 0: 2}) == [0, 1]


def test_alignment_whose_self_loop_follows_another_phone_is_refused() -> None:
    model = MODELS["mono"]
    ids, _ = aligned("mono", [(2, 2), (3, 2)], True)
    loop = next(number for number in range(1, 200) if model.are_self_loops(number) and model.phones(number) == 5)
    with pytest.raises(FormatError, match="check that the model belongs"):
        split_to_phones(model, [*ids, loop])


@pytest.mark.parametrize("reorder", [True, False])
def test_owner_of_each_phone_is_its_alignment(reorder: bool) -> None:
    parts = [aligned("mono", phones, reorder)[0] for phones in ([(2, 1), (3, 2)], [], [(4, 1)])]
    segments = split_to_phones(MODELS["mono"], np.concatenate(parts), np.cumsum([0, *map(len, parts)]))
    assert segments.owners.tolist() == [0, 0, 2] and segments.counts.tolist() == [2, 0, 1]
    reordered = is_reordered(MODELS["mono"], np.concatenate(parts), np.cumsum([0, *map(len, parts)]))
    assert reordered.tolist() == [reorder, False, reorder]


def test_gconsts_of_a_diagonal_mixture_are_rounded_as_in_kaldi() -> None:
    gaussians, dims = np.arange(6)[:, None], np.arange(20)
    precisions = np.float32(0.3) + np.float32(0.17) * ((gaussians * 7 + dims * 3) % 11).astype(np.float32)
    products = np.float32(-1.5) + np.float32(0.31) * ((gaussians * 5 + dims * 4) % 13).astype(np.float32)
    mixture = DiagGmm(np.arange(1, 7, dtype=np.float32) / np.float32(21), products, precisions)
    # Printed by a C++ program with the types of DiagGmm::ComputeGconsts: nine digits, which identify a float.
    expected = [-39.4073563, -38.6002922, -39.822834, -38.9519005, -31.7039127, -40.0663261]
    assert mixture.gconsts.tolist() == np.float32(expected).tolist()
