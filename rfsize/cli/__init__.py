"""The command line."""

from rfsize.cli.main import main

__all__ = ["main"]
