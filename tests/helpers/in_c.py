"""Compiled forests as C, built by the compiler of this system."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
FLAGS = ("-O1", "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror")


class InC:
    """A compiled forest, written as C, built and loaded."""

    def __init__(self, fast: Any, folder: Path) -> None:
        folder = Path(tempfile.mkdtemp(dir=folder))  # a library is not loaded again from another file of its name
        self.source, library = folder / "forest.c", folder / "forest.so"
        fast.to_c(self.source, name="oak")
        built = [str(CC), *FLAGS, "-shared", "-fPIC", str(self.source), "-o", str(library), "-lm"]
        done = subprocess.run(built, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        self._library, self._n_classes = ctypes.CDLL(str(library)), len(fast.classes)

    def labels(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        label, n_used = np.empty(len(X), dtype=np.intc), np.empty(len(X), dtype=np.intc)
        self._call("predict_label_many", X, ctypes.c_size_t(len(X)), label, n_used)
        assert [self._call("predict_label", row, of=ctypes.c_int) for row in X[:5]] == label[:5].tolist()
        return label, n_used

    def probabilities(self, X: np.ndarray) -> np.ndarray:
        many, alone = np.empty((len(X), self._n_classes)), np.empty(self._n_classes)
        self._call("predict_proba_many", X, ctypes.c_size_t(len(X)), many)
        self._call("predict_proba", X[0], alone)
        np.testing.assert_array_equal(alone, many[0])
        return many

    def numbers(self, X: np.ndarray) -> np.ndarray:
        many = np.empty(len(X))
        self._call("predict_many", X, ctypes.c_size_t(len(X)), many)
        np.testing.assert_array_equal(self._call("predict", X[0], of=ctypes.c_double), many[0])
        return many

    def class_label(self, index: int) -> bytes | None:
        return self._call("class_label", index, of=ctypes.c_char_p)

    def _call(self, name: str, *arguments: Any, of: Any = None) -> Any:
        function = getattr(self._library, f"oak_{name}")
        function.restype = of
        return function(*(a.ctypes.data_as(ctypes.c_void_p) if isinstance(a, np.ndarray) else a for a in arguments))
