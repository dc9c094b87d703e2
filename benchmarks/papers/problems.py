"""The problems of the papers: drawn, read from a folder of tables, part of scikit-learn, or fetched from OpenML."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import fetch_openml, load_iris, load_wine
from sklearn.model_selection import StratifiedKFold, train_test_split

from benchmarks import problems as made

Rows = tuple[np.ndarray, np.ndarray]
Draw = Callable[[int, np.random.Generator], Rows]
Cut = Callable[[Rows, int], list[Rows]]


class NoDataError(LookupError):
    """A table is not at hand."""


@dataclass(frozen=True)
class Table:
    """Where a table is found, and how many rows it must have, as in the papers."""

    rows: int
    file: str | None = None
    openml: int | None = None
    load: Callable[..., Any] | None = None
    label: Callable[[pd.DataFrame], pd.Series] | None = None
    """Makes the class from the whole table, if the class is not the table's target."""


TABLES = {
    "abalone": Table(4177, openml=183, label=lambda table: table.pop("Sex") == "I"),
    "audio": Table(226, openml=7),
    "australian": Table(690, openml=40981),
    "balance": Table(625, openml=11),
    "banana": Table(5300, openml=1460),
    "breast": Table(699, "BreastCancer", 15),
    "dna": Table(3186, "DNA", 40670),
    "ecoli": Table(336, openml=39),
    "german": Table(1000, openml=31),
    "glass": Table(214, "Glass", 41),
    "heart": Table(270, openml=53),
    "hepatitis": Table(155, openml=55),
    "horse": Table(368, openml=25),
    "image": Table(2310, openml=36),
    "ionosphere": Table(351, "Ionosphere", 59),
    "iris": Table(150, load=load_iris),
    "labor": Table(57, openml=4),
    "letter": Table(20000, openml=6),
    "magic": Table(19020, openml=1120),
    "mushroom": Table(8124, openml=24),
    "new-thyroid": Table(215, openml=40682),
    "phoneme": Table(5404, openml=1489),
    "pima": Table(768, openml=37),
    "satimage": Table(6435, "Satellite"),
    "sonar": Table(208, openml=40),
    "soybean": Table(683, "Soybean", 42),
    "spam": Table(4601, "spam", 44),
    "tic-tac-toe": Table(958, openml=50),
    "vehicle": Table(846, "Vehicle", 54),
    "votes": Table(435, openml=56),
    "vowel": Table(990, "Vowel", 307),
    "wine": Table(178, load=load_wine),
}
# Other spellings of the papers. We know no copies of "echo", "liver", "musk" and "whitewine" with the papers' columns.
SAME = {"diabetes": "pima", "horse-colic": "horse", "segment": "image"}

DRAWN: dict[str, Draw] = {
    "twonorm": made.twonorm,
    "threenorm": made.threenorm,
    "ringnorm": made.ringnorm,
    "ringnorm of mlbench": partial(made.ringnorm, centre=1.0),
    "waveform": made.waveform,
    "circle": made.circle,
    "spiral": partial(made.spiral, noise=0.147),
    "led24": made.led24,
}


@cache
def rows_of(name: str, folder: Path | None, openml: bool) -> Rows:
    """All rows of a table; ``NoDataError`` where it is not at hand."""
    source = TABLES.get(SAME.get(name, name))
    if source is None:
        raise NoDataError(f"{name}: no source is known")
    if source.load is not None:
        return source.load(return_X_y=True)  # type: ignore[no-any-return]
    if folder is not None and source.file is not None and (path := folder / f"{source.file}.csv.gz").exists():
        frame = pd.read_csv(path)
        rows = coded(frame.drop(columns="target"), frame["target"])
    elif openml and source.openml is not None:
        fetched = fetch_openml(data_id=source.openml, as_frame=True, parser="auto")
        frame = fetched.frame if source.label is not None else fetched.data
        target = fetched.target if source.label is None else source.label(frame)
        rows = coded(frame, target)
    else:
        raise NoDataError(f"{name}: give --data with {source.file}.csv.gz, or --openml")
    if len(rows[0]) != source.rows:
        raise ValueError(f"{name} has {len(rows[0])} rows, and {source.rows} in the papers: this is another data set")
    return rows


def coded(frame: pd.DataFrame, target: pd.Series) -> Rows:
    """Features as numbers, names as codes and what is missing as −1; classes as indices."""
    columns = [
        column if pd.api.types.is_numeric_dtype(column) else column.astype("category").cat.codes
        for _, column in frame.items()
    ]
    X = np.stack([column.to_numpy(dtype=np.float64, na_value=np.nan) for column in columns], axis=1)
    return np.nan_to_num(X.astype(np.float32), nan=-1.0), target.astype("category").cat.codes.to_numpy(dtype=np.int64)


def drawn(name: str, repetition: int, sizes: tuple[int, ...]) -> list[Rows]:
    """Rows of a repetition, in parts of these ``sizes``."""
    generator = np.random.default_rng([zlib.crc32(name.encode()), repetition])
    return [DRAWN[name](size, generator) for size in sizes]


def parts(name: str, repetition: int, table: Callable[[str], Rows], sizes: tuple[int, ...], cut: Cut) -> list[Rows]:
    """Rows to train and to test on: drawn, in parts of these ``sizes``, or the parts that ``cut`` makes of a table."""
    return drawn(name, repetition, sizes) if name in DRAWN else cut(table(name), repetition)


def two_thirds(rows: Rows, repetition: int) -> list[Rows]:
    """A random two thirds to train on, one third to test."""
    X, X_test, y, y_test = train_test_split(*rows, test_size=1 / 3, random_state=repetition, stratify=rows[1])
    return [(X, y), (X_test, y_test)]


def tenth(rows: Rows, repetition: int) -> list[Rows]:
    """One of ten times ten folds to test, the other nine to train on."""
    X, y = rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about classes with fewer rows than folds
        folds = list(StratifiedKFold(10, shuffle=True, random_state=repetition // 10).split(X, y))
    train, test = folds[repetition % 10]
    return [(X[train], y[train]), (X[test], y[test])]
