"""Types of NumPy arrays, named by the numbers they hold."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
