"""Pages of HTML, read as a browser reads them."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "br", "img", "input", "link", "hr"}


class Page(HTMLParser):
    """What a page holds.

    Attributes
    ----------
    tags : list of str
    attributes : list of (str, str or None)
    text : str
        All that is written, in pictures too, without style sheets.
    code : str
        What stands in ``<code>``.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = self.code = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self._open):
            self.text += data.replace("\N{NO-BREAK SPACE}", " ")
        if "code" in self._open:
            self.code += data
