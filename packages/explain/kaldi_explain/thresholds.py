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

    # Values that limit the time of an answer.
    seconds: float = 5.0  # Upper bound in seconds of processor time. The documentation promises it.
    # Work that takes a second of the budget. One core of a machine with three times as many processes as cores did
    # 1.26e6 to 1.9e6 units in a second.
    units_per_second: float = 1.1e6

    # Costs of candidates, which decide what the search does next.
    explained: float = 5e-5  # Below, only rounding is left to explain.
    near: float = 1e-2  # Below, only floors, paddings and the form of the logarithm may still be wrong.
    close: float = 0.05  # Below, few options are wrong. They may imitate one another, so they are changed together.
    partial: float = 0.1  # Below, the kind of feature is certain. Also the largest share that an explanation leaves.
    sliding: float = 0.25  # Below, changes in time fit, so means of sliding windows may have been subtracted.
    other_audio: float = 0.3  # Above, another recording or rate is more likely than wrong options.
    other_rate: float = 0.55  # Below, audio at another rate is searched with all options.
    unlike: float = 0.7  # Above, a candidate resembles the array too little to be changed option by option.
    hopeless: float = 0.85  # Above, the array is not a feature of this audio.
    cost_of_step: float = 0.05  # A processing step must reduce the residual by this share to be part of the answer.
    incomparable: float = 2.0  # Cost of candidates that cannot be compared with the array. Larger than any other cost.

    # Improvements, as the largest share of the old cost that the new cost may have.
    better: float = 0.8  # Rare causes, such as noise and other rates, must explain a fifth of the cost.
    much_better: float = 0.45  # Early in the search, a rate or a part of the columns must explain more than half.

    # Smallest scores of a timing, which assigns a time to each row. The score is the share, from 0 to 1, of the array's
    # variance that the energies of the audio explain.
    likely: float = 0.4  # Above, the array probably belongs to this audio.
    # Above, the times of the rows are certain. Also the smallest share of the best score that makes a timing likely.
    certain: float = 0.6

    # Sizes that bound the work. Larger sizes need more time or memory, and smaller sizes may miss a cause.
    rows: int = 96  # Rows that a cost compares, in blocks of neighbors. The loudest rows are added.
    settled_rows: int = 3000  # Rows on which variations are compared. The best variation is fitted to all rows.
    arrangement_rows: int = 300  # Rows that show how features are arranged, for example stacked.
    columns: int = 9000  # Largest number of columns. Wider arrays are not features.
    starts: int = 5  # Number of candidates with which the search begins.
    descents: int = 3  # Number of best candidates whose options are changed one by one.
    mistakes: int = 6  # Number of likely mistakes in reading the audio, such as swapped bytes, that are searched.
    spectra: int = 300  # Spectra in memory. Many candidates share a spectrum.
    frames: int = 4096  # Frames that are computed at once, so that spectra of an hour fit into memory.
    channels: int = 32  # Largest number of channels. More channels are samples with the axes swapped.
    searched_frames: int = 32  # Wrong frames that are compared with all frames of the features, to find copied frames.
    searches: int = 12  # Vectors of conform that are explained. Other vectors are compared with the causes of these.
    fruitless_searches: int = 3  # Searches without a result after which conform gives up on a program.
    narrow_filters: int = 60  # Narrow filters, evenly spaced in mel, that measure the centers of columns.
    clipped_seconds: float = 120.0  # Longest audio whose level of clipping is searched. Each trial clips all samples.

    # Frames.
    block: int = 8  # Neighboring rows that are compared, so that changes from row to row can be compared as well.
    around: int = 4096  # Samples that are added at each end of the audio, for frames that reach beyond it.
    components: int = 4  # Principal components of an array that are compared with bands of the audio.
    margin: int = 8  # Frames that an array may begin before the audio, or end after it.
    timing_rows: int = 12  # With fewer rows, anything correlates with the audio.
    stack: int = 16  # Largest number of frames that one row stacks.
    near_frames: int = 8  # Distance within which the frames after a missing or inserted frame are searched.
    run: int = 3  # Successive shifted frames, up to an end of the array, that show that frames are missing or added.
    shift: int = 4  # Frames that a result of conform may have before Kaldi's first frame, or lack.
    few_frames: int = 5  # With fewer frames, almost any step would fit a result of conform.
    # With fewer frames, steps after the features do not count as a cause in conform, because one fitted number for each
    # column could map any features to any result.
    free_frames: int = 20

    # Properties of the numbers of an array.
    same: float = 2e-3  # Cost of columns that differ only by the rounding of single precision.
    alike: float = 0.7  # Above this correlation, two columns may be the same column of neighboring, stacked frames.
    local: float = 0.6  # Above this correlation with a narrow filter, a column is the energy of a filter.
    distinct_values: int = 16  # Features have more distinct values than labels, masks and decisions.
    coarse: float = 0.1  # Largest rounding of stored numbers, as a share of their spread.
    limit_cells: int = 3  # Number of equal extreme values from which this value is a limit, such as a floor.
    floored_column: float = 0.8  # Largest share of a column at its floor if the column is compared.

    # Differences that count as explained.
    tolerance: float = 1e-3  # Default of the argument ``tolerance`` of explain, in units of the features.
    outlier: float = 30.0  # Factor of the tolerance that a few values may reach.
    few_cells: float = 0.1  # Largest share of cells that may differ if all other cells are mapped exactly.
    few_places: float = 0.25  # Share of wrong values that makes a frame wrong, and largest share of wrong frames named.
    named: int = 4  # Number of single values, or of copies of frames, that an answer names.
    resampled: float = 5.0  # Factor of the tolerance for resampled audio, as some filters are known by their output.
    own_rounding: float = 8.0  # Largest ratio of another implementation's rounding error to kaldi-compat's own.
    recognized: float = 0.01  # Relative error within which a slope or a pitch is recognized.
    floor_error: float = 0.02  # Error of a floor's logarithm within which the floor is recognized.
    free_cells: int = 20  # Explained cells, in excess of fitted numbers, from which chance cannot be the cause.


THRESHOLDS = Thresholds()
