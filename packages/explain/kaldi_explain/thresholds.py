"""Every threshold of explain in one place, with its unit and its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Thresholds:
    """Thresholds of the search and of the answer.

    A cost is the root of the share of an array's variance that a candidate leaves unexplained: 0 for equal features,
    about 1 for unrelated ones. The values were chosen by the table of :mod:`benchmarks.explain_arrays`, and checked by
    the arrays of :mod:`benchmarks.explain_held_out`, which no value was fitted to.
    """

    # Time of an answer.
    seconds: float = 5.0  # Upper bound in seconds of processor time. The documentation promises it.
    units_per_second: float = 0.85e6  # Work that takes a second of the budget, and less on most machines.

    # Costs of candidates.
    explained: float = 5e-5  # Only rounding is left.
    near: float = 1e-2  # Only floors, paddings and the form of the logarithm may be left.
    close: float = 0.05  # Few options are wrong, which may imitate one another, so that they are changed together.
    partial: float = 0.1  # The kind of the feature is certain. Also the largest share that an explanation leaves.
    sliding: float = 0.25  # Changes in time fit, so that means of windows may have been subtracted.
    other_audio: float = 0.3  # Above, the audio is more likely another recording or rate.
    other_rate: float = 0.55  # Below, audio at another rate deserves all options.
    unlike: float = 0.7  # Above, a candidate resembles the array too little to be changed option by option.
    hopeless: float = 0.85  # Above, the array is not a feature of this audio.
    cost_of_step: float = 0.05  # A processing step must reduce the residual by this share to be part of the answer.
    incomparable: float = 2.0  # Candidates that cannot be compared. Larger than any other cost.

    # Improvements, as shares of a cost that remain.
    better: float = 0.8  # Noise, another rate: rare causes have to explain a fifth of the cost.
    much_better: float = 0.45  # A part of the columns, another rate at the start of the search.

    # Smallest scores of a timing, which assigns a time to each row. The score is the share, from 0 to 1, of the array's
    # variance that the energies of the audio explain.
    likely: float = 0.4  # The array belongs to this audio.
    # The assumed times of the rows are right. Also the smallest share of the best score that makes a timing likely.
    certain: float = 0.6

    # Sizes, which bound the work.
    rows: int = 96  # Rows that are compared, in blocks of eight neighbors.
    settled_rows: int = 3000  # Rows on which variations are compared. The best variation is fitted to all rows.
    arrangement_rows: int = 300  # Rows that show how features are arranged.
    columns: int = 9000  # Largest number of columns. More are not features.
    starts: int = 5  # Number of candidates with which the search begins.
    descents: int = 3  # Candidates whose options are changed one by one.
    mistakes: int = 6  # Kinds of mistaken audio that are searched.
    spectra: int = 300  # Spectra of candidates in memory.
    frames: int = 4096  # Frames that are computed at once, so that spectra of an hour fit into memory.
    channels: int = 32  # Largest number of channels. More are samples with the axes swapped.
    searched_frames: int = 32  # Wrong frames that are compared with all frames of the features.
    searches: int = 12  # Vectors of conform that are explained. Other vectors are compared with the causes of these.
    fruitless_searches: int = 3  # Searches without a result after which conform searches no more for a program.
    narrow_filters: int = 60  # Filters in Hz that measure the centers of columns.

    # Frames.
    block: int = 8  # Neighboring rows that are compared, so that changes from row to row can be compared as well.
    around: int = 4096  # Samples around the audio, for frames that reach beyond it.
    components: int = 4  # Principal components of an array that are compared with bands of the audio.
    margin: int = 8  # Frames that an array may begin before the audio, or end after it.
    timing_rows: int = 12  # With fewer rows, anything correlates with the audio.
    stack: int = 16  # Largest number of stacked frames.
    near_frames: int = 8  # Distance within which the frames after a missing or inserted frame are searched.
    run: int = 3  # Frames in a row, up to an end of the array, that show that frames were left out.
    shift: int = 4  # Frames that a result of conform may have before Kaldi's first frame, or lack.
    few_frames: int = 5  # With fewer frames, any step explains a result of conform.
    free_frames: int = 20  # With fewer frames, numbers for all columns explain a result of conform.

    # Numbers of an array.
    same: float = 2e-3  # Cost of columns that differ only by the rounding of single precision.
    alike: float = 0.7  # Correlation of the same column in neighboring frames.
    local: float = 0.6  # Correlation of a column with one narrow filter, if it is a filter itself.
    distinct_values: int = 16  # Features have more distinct values than labels, masks and decisions.
    coarse: float = 0.1  # Largest rounding of stored numbers, as a share of their spread.
    limit_cells: int = 3  # Equal extreme values from which the extreme value is a limit.
    floored_column: float = 0.8  # Largest share of a column at its floor if the column is compared.

    # Differences that count as explained.
    tolerance: float = 1e-3  # Default of the argument, in units of features.
    outlier: float = 30.0  # Factor of the tolerance that a few values may reach.
    few_cells: float = 0.1  # Largest share of cells that may differ if all other cells are mapped exactly.
    few_places: float = 0.25  # Share of wrong values that makes a frame wrong, and largest share of wrong frames named.
    named: int = 4  # Single values, or copies of frames, that are named.
    resampled: float = 5.0  # Factor of the tolerance for resampled audio, as some filters are known by their output.
    own_rounding: float = 8.0  # Factor of our own rounding that another implementation's may reach.
    recognized: float = 0.01  # Relative error within which a slope or a pitch is recognized.
    floor_error: float = 0.02  # Error of a floor's logarithm within which the floor is recognized.
    free_cells: int = 20  # Cells beyond the numbers of a map that an explained array needs to exclude chance.


THRESHOLDS = Thresholds()
