"""``python -m rfsize`` is ``rfsize``."""

import sys

from rfsize.cli import main

if __name__ == "__main__":
    sys.exit(main())
