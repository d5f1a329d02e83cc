"""Candidates for the features of an array, and the array with its masks and arrangement."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kaldi_compat.errors import FeatureError
from kaldi_compat.exact.arrays import Doubles
from kaldi_explain.arrangements import Arrangement, Mask
from kaldi_explain.models import FeatureModel
from kaldi_explain.options import Changes, list_values
from kaldi_explain.sources import AudioSource


@dataclass(frozen=True, eq=False)
class Sheet:
    """An array that the search explains, and an assumption about how features were arranged in it.

    Attributes:
        words: descriptions of the changes to the original array, such as a transposition.
        values: the array (rows, columns) after these changes.
        arrangement: the assumed arrangement of the features.
        rows, columns: masks (rows,) and (columns,) of the rows and columns that depend on the audio.
        step: largest rounding error of the stored numbers.
    """

    words: list[str]
    values: Doubles
    arrangement: Arrangement
    rows: Mask
    columns: Mask
    step: float = 0.0

    def reverse_columns(self) -> Sheet:
        """Return this sheet with the columns of the array in reverse order."""
        words = [*self.words, "the columns in reverse order"]
        return replace(self, words=words, values=self.values[:, ::-1], columns=self.columns[::-1])

    @property
    def feature_values(self) -> Doubles:
        """The columns (rows, columns) that are features themselves, not copies of neighboring frames or deltas."""
        return self.values[:, self.arrangement.columns]

    @property
    def feature_columns(self) -> Mask:
        """Mask (columns,) of the columns in :attr:`feature_values` that depend on the audio."""
        return self.columns[self.arrangement.columns]


def find_floored_cells(values: Doubles) -> Mask:
    """Return the mask of the cells of an array (frames, columns) that a floor may have raised to the same value.

    A cell is selected if it has the smallest value of its column, and at least one other cell of the column has the
    same value. It is also selected if it has the smallest value of the array, and at least three cells have this value.
    """
    is_lowest_of_column, is_lowest = values == values.min(axis=0), values == values.min()
    is_floored: Mask = is_lowest_of_column & (is_lowest_of_column.sum(axis=0) >= 2)
    return is_floored | is_lowest if is_lowest.sum() >= 3 else is_floored


@dataclass(frozen=True)
class Candidate(FeatureModel):
    """A feature from which an array may have been made, the audio, and the position of the array in the audio.

    Attributes:
        source: audio from which the feature is computed.
        start: index of the feature's frame that is the array's first row.
        offset: number of samples that are removed from the start of the audio, or of zeros prepended if negative.
        order: index of the feature's column for each column of the array. None for all columns in order.
    """

    source: AudioSource = field(kw_only=True)
    start: int = 0
    offset: int = 0
    order: tuple[int, ...] | None = None

    def change(self, changes: Mapping[str, Any]) -> Candidate:
        """Return a copy with ``changes``, a mapping from names to new values. A new ``source`` also sets the rate."""
        rate_change = {"rate": changes["source"].rate} if "source" in changes else {}
        return super().change({**changes, **rate_change})

    def remove_noise(self) -> Candidate:
        """Return this candidate without the noise that the search may have added to its audio."""
        return self if self.source.plain is None else self.change({"source": self.source.plain})

    def remove_levels(self) -> Candidate:
        """Return this candidate without a sample factor, a floor, a range limit, or a number added to energies."""
        return self.change({"scale": 1.0, "floor": 0.0, "added": 0.0, "span": 0.0})

    @functools.cached_property
    def key(self) -> tuple[Any, ...]:
        """Tuple of all options and attributes, which identifies this candidate in a cache."""
        attributes = (getattr(self, name) for name in self.__dataclass_fields__ if name != "options")
        return (*sorted(self.options.items()), *attributes)

    @property
    def first_sample(self) -> int:
        """Index in the audio of the first sample of frame :attr:`start`. Negative if it lies before the audio."""
        return self.origin + self.offset + self.start * self.shift

    def move_to(self, center: float) -> Candidate:
        """Return this candidate with :attr:`start` set to the frame whose middle is nearest to sample ``center``."""
        return self.change({"start": round((center - self.origin - self.offset - self.size / 2) / self.shift)})

    def reorder(self, features: Doubles) -> Doubles:
        """Return the columns of features (frames, columns) in the order :attr:`order`, or unchanged if it is None.

        Raise :class:`FeatureError` if a column does not exist, because an option has changed the number of columns.
        """
        if self.order is not None and max(self.order) >= features.shape[1]:
            raise FeatureError(f"cannot put features with dim={features.shape[1]} in the order {self.order}")
        return features if self.order is None else features[:, list(self.order)]

    def compute_noise_features(self) -> Doubles:
        """Return the features (1, columns) of white noise whose standard deviation is one step of 16-bit samples."""
        # Without a window, the expected power of each bin equals the energy: number of samples times their variance.
        expected_energy = self.size * (self.source.full_scale / 32768) ** 2
        power = np.full((1, self.fft_points // 2 + 1), expected_energy)
        return self.reorder(self.finish_features(power, np.array([expected_energy])))

    def list_framings(self) -> list[Candidate]:
        """Return copies of this candidate, one for each convention for the edges of the audio.

        The conventions are ``snip_edges=True``, ``snip_edges=False`` and all paddings. The :attr:`offset` of the copies
        is 0. Their :attr:`start` is the last frame that does not begin after this candidate's :attr:`first_sample`.
        """
        conventions: list[Changes] = [{"snip_edges": True}, {"snip_edges": False}]
        conventions += [{"padding": padding} for padding in list_values("padding")]
        framings = [self.change(convention | {"offset": 0}) for convention in conventions]
        starts = [framed.start + (self.first_sample - framed.first_sample) // self.shift for framed in framings]
        return [framed.change({"start": start}) for framed, start in zip(framings, starts, strict=True)]

    def list_same_framings(self) -> list[Candidate]:
        """Return the candidates of :meth:`list_framings` that have the same :attr:`first_sample` as this candidate."""
        return [framed for framed in self.list_framings() if framed.first_sample == self.first_sample]

    def list_framing_changes(self) -> Iterator[Changes]:
        """Yield changes that move the first row by a frame, or that choose another convention for the edges.

        With each other convention of :meth:`list_framings`, the first row is moved to the last frame that does not
        begin after it, and then to the next frame. A convention is skipped if its frames have the same positions as the
        frames of this candidate or of an earlier convention.
        """
        yield from ({"start": self.start + step} for step in (-1, 1))
        seen_positions = {self.first_sample % self.shift}
        for framed in self.list_framings():
            position = framed.first_sample % framed.shift
            if position not in seen_positions:
                seen_positions.add(position)
                change = {"padding": framed.padding} if framed.padding else {"snip_edges": framed.get("snip_edges")}
                yield from (change | {"offset": 0, "start": framed.start + step} for step in (0, 1))
