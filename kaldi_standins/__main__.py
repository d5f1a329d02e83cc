"""``python -m kaldi_compat.interop replace NAMES -- COMMAND``: run a program over this package's stand-ins."""

import sys

from kaldi_compat.interop.replace import main

if __name__ == "__main__":
    main(sys.argv[1:])
