"""Files of a scikit-learn forest with fully grown trees: bytes, and seconds to write and to load.

    python benchmarks/deep_files.py --trees 500 --rows 20000

A RandomForestClassifier of fully grown trees is trained on rows of twonorm, with a tenth of the labels random. It is
written by joblib and skops with and without compression, as ONNX (single precision; loading means starting a session of
ONNX Runtime), and by `CompiledForest.save`. Loading time is the fastest of three; all files are in the page cache. In
addition, the deflated size of each array of the compiled file shows where its bytes are. ONNX needs skl2onnx and
onnxruntime; leave it out by `--without onnx`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import made
import numpy as np
import skops.io
from sklearn.ensemble import RandomForestClassifier

import rfsize


def fastest(call: Callable[[], Any], times: int = 3) -> float:
    """Seconds of the fastest of some calls."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found)


def to_onnx(forest: Any, X: np.ndarray, path: Path) -> None:
    """Write the forest as ONNX, without the map that its probabilities are put into by default."""
    from skl2onnx import to_onnx

    model = to_onnx(forest, X[:1].astype(np.float32), options={"zipmap": False})
    path.write_bytes(model.SerializeToString())


def onnx_session(path: Path) -> Any:
    """What answers with the forest in ONNX Runtime."""
    import onnxruntime

    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", type=int, default=500)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--without", choices=["onnx"])
    options = parser.parse_args()
    X, y = made.twonorm(options.rows, seed=0)
    noise = np.random.default_rng(0)
    y = np.where(noise.random(len(y)) < 0.1, noise.integers(0, 2, len(y)), y)
    forest = RandomForestClassifier(options.trees, random_state=0, n_jobs=2).fit(X, y)
    nodes = sum(tree.tree_.node_count for tree in forest.estimators_)
    fast = rfsize.compile(forest)
    print(f"{options.trees} trees, {options.rows:,} rows, {nodes:,} nodes")
    print(f"{'':<24}{'MB':>8}{'bytes a node':>14}{'write s':>10}{'load s':>8}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "forest"
        kinds: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
            f"joblib, compress={level}": (
                lambda level=level: joblib.dump(forest, path, level),
                lambda: joblib.load(path),
            )
            for level in (0, 3)
        }
        for level in (0, 6):
            kinds[f"skops, compresslevel={level}"] = (
                lambda level=level: skops.io.dump(forest, path, compression=8 if level else 0, compresslevel=level),
                lambda: skops.io.load(path, skops.io.get_untrusted_types(file=path)),
            )
        if options.without != "onnx":
            kinds["ONNX"] = (lambda: to_onnx(forest, X, path), lambda: onnx_session(path))
        kinds["rfsize"] = (lambda: fast.save(path), lambda: rfsize.load(path))
        for name, (write, load) in kinds.items():
            seconds = fastest(write, 1)
            size = path.stat().st_size
            print(f"{name:<24}{size / 1e6:>8.1f}{size / nodes:>14.1f}{seconds:>10.2f}{fastest(load):>8.2f}")
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if member.compress_size > 10_000:
                    raw, packed = member.file_size / nodes, member.compress_size / nodes
                    print(f"  {member.filename:<20} {packed:.2f} bytes a node, of {raw:.2f}")


if __name__ == "__main__":
    main()
