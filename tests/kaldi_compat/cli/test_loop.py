"""Tests of kaldi_compat.cli.loop: what a program does to blocks, it does to their entries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import io_ark
from io_ark.blocks import Block, Skip, create_block
from io_ark.errors import FormatError
from kaldi_compat.cli.loop import Counts, map_table
from kaldi_compat.cli.tables import Missing
from kaldi_compat.errors import FeatureError

GOOD, SKIPPED, SILENT, WRONG, UNREADABLE = range(5)
ERRORS = {WRONG: FeatureError("wrong"), UNREADABLE: FormatError("unreadable", key="u")}


class Written:
    """Takes blocks of results."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def write_block(self, block: Block) -> None:
        self.keys += block.decode_keys()


def refuse(key: str, kind: int) -> None:
    if kind in ERRORS:
        raise ERRORS[kind]
    if kind != GOOD:
        raise Skip(f"{key} is skipped" if kind == SKIPPED else "")


def of_block(block: Block) -> Block:
    for key, kind in block.entries():
        refuse(key, kind)
    return block


def by_entry(block: Block) -> Block:
    return block.map(lambda key, kind: refuse(key, kind) or kind)


def by_look_up(block: Block) -> Block:
    """Refuse several entries as a table does that lacks some; one of them alone is not passed again."""
    warnings = {SKIPPED: " is skipped", SILENT: ""}
    found = [
        f"{key}{warnings[kind]}" * (kind == SKIPPED) if kind in warnings else None for key, kind in block.entries()
    ]
    if any(warning is not None for warning in found):
        assert len(found) > 1 or block.decode_keys()[0].endswith("-0")
        raise Missing(found)
    return of_block(block)


@pytest.mark.parametrize("function", [of_block, by_entry, by_look_up])
@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=7), max_size=4))
def test_results_before_an_error_are_written_and_warnings_come_in_order(
    function: object, kinds: list[list[int]]
) -> None:
    blocks = [create_block([f"{i}-{j}" for j in range(len(each))], each) for i, each in enumerate(kinds)]
    entries = [entry for block in blocks for entry in block.entries()]
    first_error = next((at for at, (_, kind) in enumerate(entries) if kind in ERRORS), len(entries))
    written, counts = Written(), Counts()
    with pytest.MonkeyPatch.context() as patch:
        warnings: list[str] = []
        for name in "kaldi_compat.cli.loop", "io_ark.blocks.base":
            patch.setattr(f"{name}.logger.warning", lambda _, reason: warnings.append(str(reason)))
        try:
            counts = map_table(blocks, written, function)  # type: ignore[arg-type]
        except FeatureError as error:
            assert str(error) == f"{entries[first_error][0]}: wrong"
        except io_ark.ArkError as error:
            assert error is ERRORS[UNREADABLE]
        else:
            assert first_error == len(entries)
            assert (counts.done, counts.total) == (len(written.keys), len(entries))
            assert counts.status == (0 if written.keys else 1)
    assert written.keys == [key for key, kind in entries[:first_error] if kind == GOOD]
    assert warnings == [f"{key} is skipped" for key, kind in entries[:first_error] if kind == SKIPPED]
