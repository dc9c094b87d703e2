"""``python -m refusals``, run in docs/_ext, writes the page again."""

from refusals import write

write()
