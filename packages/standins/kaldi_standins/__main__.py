"""``python -m kaldi_standins replace NAMES -- COMMAND``: run a program over this package's stand-ins."""

import sys

from kaldi_standins.replace import main

if __name__ == "__main__":
    main(sys.argv[1:])
