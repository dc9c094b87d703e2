"""Settings of all tests."""

from __future__ import annotations

import os

# Read where OpenMP or a BLAS is loaded, here and in what tests start: forests and matrices this small are worked on
# sooner by one thread than by several that wait for each other, and threads that wait leave the processor to others.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from hypothesis import settings

settings.register_profile("untimed", deadline=None, max_examples=60)
settings.load_profile("untimed")
