"""A page in headless Chromium: it fits, can be read in both colour schemes, and asks nobody for anything."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from rfsize.reporting.result import Result

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not installed (apt-get install chromium): pages were not looked at in it"
)

WIDTHS = (400, 1200)
SCHEMES = {"dark": 0, "light": 1}

# Frames as wide as windows, and a script that looks at the page in each.
FRAMES = """<!DOCTYPE html><title>frames</title>
{frames}
<pre id="found"></pre>
<script>
const brightness = colour => {{
  const context = document.createElement("canvas").getContext("2d");
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  const [red, green, blue] = context.getImageData(0, 0, 1, 1).data;
  return (0.3 * red + 0.6 * green + 0.1 * blue) / 255;
}};
const look = frame => {{
  const page = frame.contentDocument, style = element => frame.contentWindow.getComputedStyle(element);
  const pictures = [...page.querySelectorAll("svg")];
  return {{
    heading: page.querySelector("h1").textContent,
    overflows: page.documentElement.scrollWidth > frame.clientWidth,
    pictures: pictures.map(picture => picture.getBoundingClientRect().width),
    letters: Math.min(...pictures.map(picture => picture.querySelector("text").getBoundingClientRect().height)),
    paper: brightness(style(page.body).backgroundColor),
    ink: brightness(style(page.querySelector("h1")).color),
    drawn: pictures.map(picture => brightness(style(picture.querySelector("text")).fill)),
    asked: frame.contentWindow.performance.getEntriesByType("resource").map(one => one.name),
  }};
}};
addEventListener("load", () => {{
  const found = [...document.querySelectorAll("iframe")].map(look);
  document.getElementById("found").textContent = JSON.stringify(found);
}});
</script>
"""


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and says nothing of it."""

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Where the files of `tmp_path` are served: of what comes from files, browsers do not tell what it asks for."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(params=SCHEMES)
def seen(
    request: pytest.FixtureRequest, address: str, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Path], list[dict[str, Any]]]:
    """What a page looks like at each width, in one colour scheme."""

    def look(page: Path) -> list[dict[str, Any]]:
        home = tmp_path_factory.mktemp("home")
        frames = [f'<iframe width="{width}" height="900" src="{page.name}"></iframe>' for width in WIDTHS]
        page.with_name("frames.html").write_text(FRAMES.format(frames="".join(frames)), encoding="utf-8")
        assert CHROMIUM is not None
        command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        command += [f"--blink-settings=preferredColorScheme={SCHEMES[request.param]}"]
        command += [f"--user-data-dir={home}", "--virtual-time-budget=5000", "--dump-dom", f"{address}/frames.html"]
        told: dict[str, Any] = {"capture_output": True, "text": True, "check": True, "timeout": 120}
        printed = subprocess.run(command, env={**os.environ, "HOME": str(home)}, **told).stdout
        found = re.search(r'<pre id="found">(.*?)</pre>', printed, re.DOTALL)
        assert found is not None
        return [{"scheme": request.param, **one} for one in json.loads(unescape(found[1]))]

    return look


def test_it_fits_and_can_be_read(
    seen: Callable[[Path], list[dict[str, Any]]], results: dict[str, Result], tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    results["enough"].to_html(path, results["odd score"], results["mcnemar"], results["fraction"])
    narrow, wide = seen(path)
    for page in (narrow, wide):
        assert page["heading"] == results["enough"]._account().verdict
        assert not page["overflows"]
        assert page["asked"] == []
        assert len(page["pictures"]) == 5
        assert page["letters"] >= 9.0
        assert (page["paper"] > 0.9) if page["scheme"] == "light" else (page["paper"] < 0.2)
        assert all(abs(ink - page["paper"]) > 0.6 for ink in (page["ink"], *page["drawn"]))
    assert min(narrow["pictures"]) > 300
    assert max(wide["pictures"]) < 600


def test_what_a_page_must_not_do_would_be_seen(
    seen: Callable[[Path], list[dict[str, Any]]], results: dict[str, Result], tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    results["score"].to_html(path)
    sheets = '<link rel="stylesheet" href="near.css"><link rel="stylesheet" href="http://localhost:9/far.css">'
    more = f'{sheets}<div style="width: 2000px; height: 1px"></div></main>'
    path.write_text(path.read_text(encoding="utf-8").replace("</main>", more), encoding="utf-8")
    for page in seen(path):
        assert page["overflows"]
        assert {name.rpartition("/")[2] for name in page["asked"]} == {"near.css", "far.css"}
