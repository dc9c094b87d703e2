"""Helpers: checked arguments, rows of any kind, compiled loops, files, the style of pictures."""
