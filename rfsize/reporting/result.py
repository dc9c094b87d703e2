"""Result: the base class of all results, which notebooks show and `to_html` writes as a page."""

from __future__ import annotations

from os import PathLike

from rfsize._files import written_whole
from rfsize.reporting.account import Account


class Result:
    """A result that can be shown as a page."""

    def _account(self) -> Account:
        """The contents of the page."""
        raise NotImplementedError

    def to_html(self, path: str | PathLike[str], *others: Result) -> None:
        """Write the result as an HTML page that you can send.

        The page is one file that loads nothing else. Its only script copies code to the clipboard.

        Parameters
        ----------
        path : str or path-like
            The file to write. An existing file is replaced when the page is complete.
        *others : result of rfsize
            More results to show below: an `OobScore`, a `FractionSearch`, or another report.

        Raises
        ------
        ImportError
            If Jinja2 or Matplotlib is missing. The message says what to install.
        ValueError
            If one of ``others`` is not a result of rfsize.
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import rfsize
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
        >>> report = rfsize.size(forest, X, y, oob=True, alpha=0.95)
        >>> report.to_html("report.html", rfsize.oob_score(forest, X, y, metric="auc"))
        """
        from rfsize.reporting.pages import page

        for other in others:
            if not isinstance(other, Result):
                raise ValueError(
                    "to_html takes results of rfsize to show on the same page, such as what rfsize.oob_score "
                    f"returns; found a {type(other).__name__}"
                )
        text = page([one._account() for one in (self, *others)])
        with written_whole(path) as partial:
            partial.write_text(text, encoding="utf-8")

    def _repr_html_(self) -> str | None:
        """What notebooks show. None makes them show the text, if the packages that make pages are missing."""
        from rfsize.reporting.pages import can_be_drawn, fragment

        return fragment([self._account()]) if can_be_drawn() else None
