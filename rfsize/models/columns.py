"""The columns that a forest was trained on; one rule for every kind of rows, and for every piece of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from rfsize.exceptions import UnknownColumnsWarning
from rfsize.utils import matrix
from rfsize.utils.pieces import Pieces, pieces_of
from rfsize.utils.rows import in_memory, kinds_of, only
from rfsize.utils.warn import warn
from rfsize.utils.words import printable


class Categorical(NamedTuple):
    """The features that were categorical at training.

    Attributes
    ----------
    named : tuple of int or None
        Features whose categories the model stores; None if it stores only the order of these features.
    n_named : int
        Number of these features.
    coded : tuple of int
        Features whose categories the model does not store: their values are codes.
    takes_codes : bool
        Whether the framework reads such features by the codes of the DataFrame that you give.
    codes_numbers : bool
        Whether columns of numbers may hold the values of categories too.
    """

    named: tuple[int, ...] | None = ()
    n_named: int = 0
    coded: tuple[int, ...] = ()
    takes_codes: bool = False
    codes_numbers: bool = False


@dataclass(frozen=True)
class Columns:
    """The columns that a forest was trained on.

    Attributes
    ----------
    names : list of str or None
        Names of the features; None if they have none.
    n_features : int
        Number of features.
    categorical : Categorical or None
        The categorical features. None if members may read anything: then nothing but their own check is made.
    spaces_become_underscores : bool
        Whether ``names`` have underscores in place of spaces.
    numbers_only : bool
        Whether arrays must hold numbers.
    """

    names: list[str] | None
    n_features: int
    categorical: Categorical | None = None
    spaces_become_underscores: bool = False
    numbers_only: bool = True


class CheckedPieces(Pieces):
    """Pieces of which each is checked, and brought to the columns of training, when it is read."""

    def __init__(self, source: Pieces, columns: Columns, check: Callable[[Any], Any], left_out: Sequence[str]) -> None:
        super().__init__()
        self.columns, self.names, self.ends = columns, columns.names, source.ends
        self.shape = source.shape[0], columns.n_features
        self._source, self._check, self._left_out = source, check, set(left_out)

    def load(self, piece: int) -> Any:
        """A piece with the columns of training; ``ValueError`` as for the same rows alone."""
        try:
            rows, unknown = _by_name(self._source.load(piece), self.columns)
            _warn_of([name for name in unknown if name not in self._left_out])
            self._left_out.update(unknown)
            return self._check(rows)
        except ValueError as error:
            raise ValueError(f"piece {piece} of X, counted from 0: {error}") from error


def rows_for(X: Any, columns: Columns, *, check: Callable[[Any], Any] | None = None) -> Any:
    """``X`` with the features of a forest, as `matrix.as_rows` returns it.

    Parameters
    ----------
    X
        Rows of any kind.
    columns : Columns
        The columns of training.
    check : callable, optional
        Check of a piece of rows in memory, by default this function.

    Raises
    ------
    ValueError
        If columns are missing, or hold other things than at training, or ``X`` is not a matrix of numbers. For rows in
        pieces: when the piece is read, unless the source tells it before.
    """
    pieces = pieces_of(X)
    if pieces is not None:
        return _checked_pieces(pieces, columns, check or partial(rows_for, columns=columns))
    X = in_memory(known_columns(X, columns), numbers_only=columns.numbers_only)
    check_width(X, columns)
    if columns.categorical is not None:
        kinds = kinds_of(X)
        if kinds is not None:
            categorical_columns(matrix.names_of(X) or [], kinds, columns.categorical)
    return X


def _checked_pieces(pieces: Pieces, columns: Columns, check: Callable[[Any], Any]) -> Pieces:
    if isinstance(pieces, CheckedPieces) and pieces.columns == columns:
        return pieces
    left_out: list[str] = []
    if columns.names is None or pieces.names is None:
        if pieces.in_some:
            raise ValueError(
                f"only some files of X have the columns {sorted(pieces.in_some)}, and the forest does not know the "
                "names of its features: give all files the columns of training, in their order"
            )
        check_width(pieces, columns)
    else:
        pieces, left_out = _by_name(pieces, columns)
        left_out += [name for name in pieces.in_some if name not in columns.names]
        _warn_of(left_out)
    return CheckedPieces(pieces, columns, check, left_out)


def check_width(X: Any, columns: Columns) -> None:
    """Raise ``ValueError`` if ``X`` has not as many columns as the forest has features."""
    if matrix.n_features(X) != columns.n_features:
        by_place = columns.names is None and matrix.names_of(X) is not None
        raise ValueError(
            f"X has {matrix.n_features(X)} columns, but the forest was trained on {columns.n_features} features"
            + (", whose names it does not know: leave the other columns out" if by_place else "")
        )


def known_columns(X: Any, columns: Columns) -> Any:
    """The columns of ``X`` that have the names of training, in their order; ``X`` itself if either has no names.

    Columns with other names are left out, with an `UnknownColumnsWarning`.

    Raises
    ------
    ValueError
        If ``X`` lacks one of the names, or has two columns of that name.
    """
    X, unknown = _by_name(X, columns)
    _warn_of(unknown)
    return X


def _by_name(X: Any, columns: Columns) -> tuple[Any, list[str]]:
    """The columns of training, and the names of the others."""
    names, given = columns.names, matrix.names_of(X)
    if names is None or given is None:
        return X, []
    if columns.spaces_become_underscores:
        given = [name.replace(" ", "_") for name in given]
    if given == names:
        return X, []
    twice = sorted({name for name in names if given.count(name) > 1})
    if twice:
        raise ValueError(f"X has columns of the same name: {twice}")
    wanted = set(names)
    missing, unknown = sorted(wanted - set(given)), [name for name in given if name not in wanted]
    if missing:
        files = sorted({X.in_some[name] for name in missing if name in X.in_some}) if isinstance(X, Pieces) else []
        raise ValueError(
            f"the columns of X are not those of training: missing {missing}, unknown {sorted(unknown)}"
            + (f"; not all files have them, for instance {files[0]} has not" if files else "")
        )
    place = {name: index for index, name in enumerate(given)}
    places = [place[name] for name in names]
    return (X.only(places) if isinstance(X, Pieces) else only(X, places)), unknown


def _warn_of(unknown: Sequence[str]) -> None:
    if unknown:
        warn(
            f"the columns {list(unknown)} of X are left out, because the forest was not trained on them",
            UnknownColumnsWarning,
        )


def categorical_columns(names: Sequence[str], kinds: Sequence[str], categorical: Categorical) -> list[int]:
    """The columns that hold categories whose codes the model knows, in the order of its lists of categories.

    Parameters
    ----------
    names, kinds : sequence of str
        Name and kind of each column, as `rfsize.utils.rows.kinds_of` tells it.
    categorical : Categorical
        The features that were categorical at training.

    Raises
    ------
    ValueError
        If a column holds something else than at training.
    """
    others = [column for column, kind in enumerate(kinds) if kind != "number"]
    columns = others if categorical.named is None else list(categorical.named)
    if len(columns) != categorical.n_named:
        raise ValueError(
            f"{categorical.n_named} columns were categorical at training, but {len(columns)} columns of X are: "
            f"{_listed(names, columns)}"
        )
    numbers = [column for column in columns if kinds[column] == "number"]
    if numbers and not categorical.codes_numbers:
        raise ValueError(
            f"the columns {_listed(names, numbers)} of X hold numbers, but were categorical at training: convert them "
            "with .astype('category')"
        )
    wrong = [column for column in others if column not in columns]
    if categorical.takes_codes:
        wrong = [column for column in wrong if column not in categorical.coded or kinds[column] != "category"]
    coded = [column for column in wrong if column in categorical.coded]
    if coded:
        raise ValueError(
            f"the columns {_listed(names, coded)} were categorical at training, and the model does not store their "
            "categories, only codes (as of a binary Dataset, or of numbers declared as categories): give the codes of "
            "training, as numbers"
        )
    if wrong:
        raise ValueError(
            f"the columns {_listed(names, wrong)} of X hold no numbers, and were not categorical at training either; "
            "convert numbers in columns of objects with .astype(float)"
        )
    return columns


def _listed(names: Sequence[str], columns: Sequence[int]) -> list[str]:
    return [printable(names[column]) for column in columns]
