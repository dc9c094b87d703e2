"""Integrations that somebody else installed wrongly: their own models fail, with what to do, and no others."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import rfsize
from helpers.forests import Data
from rfsize.cli.main import main
from rfsize.models import registry


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Puts a distribution with one line of entry points, and perhaps a module, among those installed."""

    def put(name: str, line: str, module: str | None = None) -> None:
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{line}\n")
        if module is not None:
            (tmp_path / "ghost_module.py").write_text(module)
        monkeypatch.delitem(sys.modules, "ghost_module", raising=False)
        monkeypatch.syspath_prepend(str(tmp_path))
        registry._entries.cache_clear()
        registry.framework_named.cache_clear()

    yield put
    sys.modules.pop("ghost_module", None)
    registry._entries.cache_clear()
    registry.framework_named.cache_clear()


def ghost() -> Any:
    """A model of the framework that the broken distribution is to teach."""
    return type("Forest", (), {"__module__": "ghost.forests"})()


BROKEN = [
    ("ghost = no_such_module:framework", None, "cannot be imported .*repair or uninstall it"),
    ("ghost = ghost_module:framework", "raise RuntimeError('boom')", "RuntimeError: boom"),
    ("ghost = ghost_module:framework", "integration = 3", "is a int: its entry point must name"),
    ("ghost = ghost_module:nothing", "integration = 3", "cannot be imported"),
    ("ghost = ghost_module:framework", "import ghost", "need ghost, which is not installed: install it with pip"),
]


@pytest.mark.parametrize(("line", "module", "message"), BROKEN)
def test_a_broken_one_says_what_to_do_and_spares_the_others(
    line: str, module: str | None, message: str, install: Any, booster: Any, data: Data, tmp_path: Path
) -> None:
    install("ghostlib", line, module)
    with pytest.raises(ImportError, match=message):
        rfsize.size(ghost(), data.X)
    assert rfsize.size(booster, data.fresh, alpha=0.8).n_trees >= 1
    with pytest.raises(ValueError, match="rfsize sizes a"):
        rfsize.size(object(), data.X)


def test_the_command_line_reads_files_of_the_others(
    install: Any, lgb_booster: Any, data: Data, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install("ghostlib", "ghost = no_such_module:framework")
    lgb_booster.save_model(tmp_path / "model.txt")
    pd.DataFrame(data.fresh).add_prefix("f").to_parquet(tmp_path / "rows.parquet")
    assert main(["size", str(tmp_path / "model.txt"), str(tmp_path / "rows.parquet"), "--alpha", "0.8"]) == 0
    (tmp_path / "else.txt").write_text("something else")
    assert main(["size", str(tmp_path / "else.txt"), str(tmp_path / "rows.parquet")]) == 2
    error = capsys.readouterr().err
    assert "is neither a LightGBM text model nor a scikit-learn model in a skops file nor an XGBoost" in error
    assert "ghost" in error


def test_two_that_teach_the_same_are_both_named(install: Any, data: Data, lgb_booster: Any, xgb_booster: Any) -> None:
    install("otherlib", "lightgbm = other_module:framework")
    with pytest.raises(
        ImportError, match=r"two distributions integrate .*, .* and .*: uninstall one of the two"
    ) as refused:
        rfsize.size(lgb_booster, data.fresh)
    assert "otherlib" in str(refused.value)
    assert "rfsize" in str(refused.value)
    assert rfsize.size(xgb_booster, data.fresh, alpha=0.8).n_trees >= 1


def test_entry_points_that_cannot_be_read_are_warned_of(install: Any, data: Data, booster: Any) -> None:
    install("ghostlib", "ghost")
    with pytest.warns(RuntimeWarning, match="'ghostlib' cannot be read"):
        report = rfsize.size(booster, data.fresh, alpha=0.8)
    assert report.n_trees >= 1


def test_a_framework_that_none_teaches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.csv").write_text("a,y\n1,0\n2,1\n3,0\n4,1\n")
    arguments = ["grow", str(tmp_path / "rows.csv"), "--labels", "y", "-o", str(tmp_path / "out.txt"), "--framework"]
    assert main([*arguments, "catboost"]) == 2
    assert "knows no framework 'catboost'; it knows lightgbm, sklearn, xgboost" in capsys.readouterr().err
    assert main([*arguments, "sklearn", "-o", str(tmp_path / "out.skops")]) == 2
    assert "the command line cannot train" in capsys.readouterr().err
