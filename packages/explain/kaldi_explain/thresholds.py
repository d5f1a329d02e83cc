"""Every threshold of explain in one place, with its unit and its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Thresholds:
    """Thresholds of the search and of the answer.

    A cost is the root of the share of an array's variance that a candidate leaves unexplained: 0 for equal features,
    about 1 for unrelated features. The values were chosen by the table of :mod:`benchmarks.explain_arrays`, and checked
    by the arrays of :mod:`benchmarks.explain_held_out`, to which no value was fitted.
    """

    # Values that limit the time of an answer.
    seconds: float = 5.0  # Largest processor time of an answer in seconds. The documentation promises this limit.
    # Units of work that count as one second of the budget. One core of a machine with three times as many processes as
    # cores did 1.26e6 to 1.9e6 units in a second, so counted work usually ends the search before the clock does.
    units_per_second: float = 1.1e6
    # Seconds of the budget that remain after settling, to recognize dithering and to tell certain options from guesses.
    completing_seconds: float = 0.2

    # Costs of candidates, which decide what the search does next.
    explained: float = 5e-5  # A candidate with a smaller cost differs from the array only by rounding.
    near: float = 1e-2  # Below this cost, only floors, paddings and the form of the logarithm may still be wrong.
    close: float = 0.05  # Below this cost, few options are wrong. They may compensate for each other, so change pairs.
    partial: float = 0.1  # Below this cost, the kind of feature is certain. Also the largest cost of an explanation.
    sliding: float = 0.25  # Largest cost of the changes from row to row for which means of sliding windows are tried.
    other_audio: float = 0.3  # Above this cost, another recording or sampling rate is likelier than wrong options.
    other_rate: float = 0.55  # Below this cost, all options are tried with audio that was resampled to another rate.
    unlike: float = 0.7  # Above this cost, a candidate is too different for changes of single options to help.
    hopeless: float = 0.85  # If all candidates cost more, the array is not a feature of this audio.
    cost_of_step: float = 0.05  # Share by which each step increases a residual, so that only steps with a gain remain.
    incomparable: float = 2.0  # Cost of a candidate that cannot be compared with the array. Larger than any real cost.

    # Largest ratios of the new cost to the old cost for which a change counts as an improvement.
    better: float = 0.8  # Rare causes, such as noise and other rates, must explain a fifth of the cost.
    much_better: float = 0.45  # Early in the search, another rate or a part of the columns must explain over half.

    # Smallest scores of a timing, which assigns a time to each row. The score is the share, from 0 to 1, of the array's
    # variance that the energies of the audio explain.
    likely: float = 0.4  # Above this score, the array probably belongs to this audio.
    # Above this score, the times of the rows are certain. Also the smallest ratio of a likely timing's score to the
    # best score.
    certain: float = 0.6

    # Sizes that bound the work. Larger sizes need more time or memory, and smaller sizes may miss a cause.
    rows: int = 96  # Number of rows, in blocks of neighbors, from which a cost is computed. The loudest rows are added.
    settled_rows: int = 3000  # Number of rows on which variations are compared. The best one is fitted to all rows.
    arrangement_rows: int = 300  # Number of rows that show how features are arranged, such as stacked frames.
    columns: int = 9000  # Largest number of columns. Wider arrays are not features.
    starts: int = 5  # Number of candidates with which the search begins.
    descents: int = 3  # Number of best candidates whose options are changed one by one.
    mistakes: int = 6  # Number of likely mistakes in reading the audio, such as swapped bytes, that are tried.
    spectra: int = 300  # Number of spectra that are kept in memory, because many candidates share a spectrum.
    frames: int = 4096  # Number of frames that are computed at once, so that an hour of audio fits into memory.
    channels: int = 32  # Largest number of channels. An array with more channels probably has its axes swapped.
    searched_frames: int = 32  # Number of wrong frames for which an equal frame is searched for in all features.
    searches: int = 12  # Number of wrong vectors of conform for which new causes are searched for, not only known ones.
    fruitless_searches: int = 3  # Number of searches without a result after which conform stops searching for causes.
    narrow_filters: int = 60  # Number of narrow filters, evenly spaced in mel, that measure the centers of columns.
    clipped_seconds: float = 120.0  # Longest audio in seconds for which clipping is tried. A trial clips all samples.

    # Numbers of rows, frames and samples.
    block: int = 8  # Number of neighboring rows in a block, which shows the changes from row to row as well.
    around: int = 4096  # Number of samples added at each end of the audio, for frames that reach beyond it.
    components: int = 4  # Number of principal components of an array that are compared with bands of the audio.
    margin: int = 8  # Number of frames by which an array may begin before the audio or end after it.
    timing_rows: int = 12  # Smallest number of rows for a timing, because fewer rows correlate with any audio.
    stack: int = 16  # Largest number of frames that one row of an array may stack.
    # Largest distance, in frames, from a wrong frame to the equal frame of the features that is searched for. A missing
    # or inserted frame shifts all later frames.
    near_frames: int = 8
    # Smallest number of successive shifted frames, up to an end of the array, that show a missing or inserted frame.
    run: int = 3
    shift: int = 4  # Largest number of frames by which a result of conform may begin earlier or later than Kaldi's.
    few_frames: int = 5  # Smallest number of frames of a result of conform, because almost any step fits fewer frames.
    # Smallest number of frames for which steps after the features count as a cause in conform. With fewer frames, one
    # fitted number for each column could map any features to any result.
    free_frames: int = 20

    # Properties of the numbers of an array.
    same: float = 2e-3  # Largest cost of columns that differ only by the rounding of single precision.
    alike: float = 0.7  # Smallest correlation of two columns that may be one column of neighboring frames in a row.
    local: float = 0.6  # Smallest correlation of a column with a narrow filter that shows the column's center.
    distinct_values: int = 16  # Smallest number of distinct values of features. Labels, masks and decisions have fewer.
    coarse: float = 0.1  # Largest rounding of stored numbers, as a share of the median deviation of the columns.
    limit_cells: int = 3  # Smallest number of cells with an array's extreme value that show a limit, such as a floor.
    floored_column: float = 0.8  # Largest share of a column's cells at a limit for which the column is compared.

    # Differences that count as explained.
    tolerance: float = 1e-3  # Default of the argument ``tolerance`` of explain, in the units of the features.
    outlier: float = 30.0  # Number of tolerances by which a few values may differ.
    few_cells: float = 0.1  # Largest share of values that may differ by more than the tolerance if all others agree.
    # Share of wrong values above which a whole frame or column counts as wrong. Also the largest share of frames or
    # columns that an answer names as the only places of differences.
    few_places: float = 0.25
    named: int = 4  # Largest number of single values, or of copies of frames, that an answer names.
    resampled: float = 5.0  # Factor of the tolerance for resampled audio. Some filters are estimated from their output.
    own_rounding: float = 8.0  # Largest ratio of another implementation's rounding errors to those of kaldi-compat.
    # Largest relative error of a slope that is recognized. For pitch and means, it is a share of a column's deviation.
    recognized: float = 0.01
    floor_error: float = 0.02  # Largest error of the natural logarithm of a floor that is recognized.
    free_cells: int = 20  # Smallest number of explained cells, minus fitted numbers, that chance cannot explain.


THRESHOLDS = Thresholds()
