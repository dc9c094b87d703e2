"""Find a forest's columns by the names it was trained with; one rule for every kind of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfsize.exceptions import UnknownColumnsWarning
from rfsize.utils import matrix
from rfsize.utils.pieces import Pieces, pieces_of
from rfsize.utils.rows import only
from rfsize.utils.warn import warn


def rows_for(
    X: Any,
    names: Sequence[str] | None,
    n_features: int,
    *,
    spaces_become_underscores: bool = False,
    numbers_only: bool = True,
) -> Any:
    """``X`` as `matrix.as_rows` returns it, with the features of a forest; ``names`` is None if they have no names.

    Raises
    ------
    ValueError
        If columns are missing, or ``X`` is not a matrix of numbers.
    """
    X = known_columns(X, names, spaces_become_underscores=spaces_become_underscores)
    X = matrix.as_rows(X, numbers_only=numbers_only)
    if matrix.n_features(X) != n_features:
        by_place = names is None and matrix.names_of(X) is not None
        raise ValueError(
            f"X has {matrix.n_features(X)} columns, but the forest was trained on {n_features} features"
            + (", whose names it does not know: leave the other columns out" if by_place else "")
        )
    return X


def known_columns(X: Any, names: Sequence[str] | None, *, spaces_become_underscores: bool = False) -> Any:
    """The columns of ``X`` with these names, in the order of ``names``; ``X`` itself if either has no names.

    Columns with other names are left out, with an `UnknownColumnsWarning`.

    Raises
    ------
    ValueError
        If ``X`` lacks one of the names, or has two columns of that name.
    """
    pieces = pieces_of(X)
    X = X if pieces is None else pieces
    found = matrix.names_of(X)
    if names is None or found is None:
        return X
    if spaces_become_underscores:
        found = [name.replace(" ", "_") for name in found]
    if found == list(names):
        return X
    twice = sorted({name for name in names if found.count(name) > 1})
    if twice:
        raise ValueError(f"X has columns of the same name: {twice}")
    missing, unknown = sorted(set(names) - set(found)), [name for name in found if name not in set(names)]
    if missing:
        raise ValueError(f"the columns of X are not those of training: missing {missing}, unknown {sorted(unknown)}")
    if unknown:
        warn(
            f"the columns {unknown} of X are left out, because the forest was not trained on them",
            UnknownColumnsWarning,
        )
    place = {name: index for index, name in enumerate(found)}
    places = [place[name] for name in names]
    return X.only(places) if isinstance(X, Pieces) else only(X, places)
