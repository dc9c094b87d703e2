"""``python -m rfsize``: the command line."""

from rfsize.cli import main

raise SystemExit(main())
