"""Rules of stopping are known by their kinds, of which each is one class."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from rfsize.stopping.rules.base import Stops
from rfsize.stopping.rules.spread import SpreadStops

Import = Callable[[str, Path], ModuleType]


@pytest.fixture
def import_as(monkeypatch: pytest.MonkeyPatch) -> Import:
    """Import a file under a name; rules that it holds are forgotten afterwards."""
    monkeypatch.setattr(Stops, "_by_kind", dict(Stops._by_kind))

    def as_module(name: str, file: Path) -> ModuleType:
        spec = spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return as_module


def rule(file: Path, name: str = "Mine", kind: str = "mine") -> Path:
    """A file with one rule more."""
    with file.open("a") as lines:
        lines.write("from rfsize.stopping.rules.base import Stops\n")
        lines.write(f"class {name}(Stops):\n    kind = {kind!r}\n")
    return file


def test_a_new_kind_is_known(import_as: Import, tmp_path: Path) -> None:
    module = import_as("mine", rule(tmp_path / "mine.py"))
    assert Stops.kinds(10, 2)["mine"] is module.Mine
    assert Stops.kinds(10, 1)["spread"] is SpreadStops


def test_a_second_class_of_a_kind_is_refused(import_as: Import, tmp_path: Path) -> None:
    mine, other = rule(tmp_path / "mine.py"), rule(tmp_path / "other.py")
    module = import_as("mine", mine)
    with pytest.raises(TypeError, match=r"kind 'mine'.*: mine\.Mine \(.*mine\.py\) and other\.Mine \(.*other\.py\)"):
        import_as("other", other)
    with pytest.raises(TypeError, match=r"rules\.spread\.SpreadStops .* and third\.Mine "):
        import_as("third", rule(tmp_path / "third.py", kind="spread"))
    with pytest.raises(TypeError, match=r"twice\.Mine .* and twice\.Yours "):
        import_as("twice", rule(rule(tmp_path / "twice.py", kind="yours"), "Yours", "yours"))
    assert Stops.kinds(10, 2)["mine"] is module.Mine
    assert Stops.kinds(10, 1)["spread"] is SpreadStops


def test_a_module_may_be_imported_again(import_as: Import, tmp_path: Path) -> None:
    """Reloaded, and by tools that know its file under another name."""
    mine = rule(tmp_path / "mine.py")
    import_as("mine", mine)
    for name in ("mine", "somewhere.mine"):
        module = import_as(name, mine)
        assert Stops.kinds(10, 2)["mine"] is module.Mine


def test_classes_of_no_file_are_told_apart_by_their_modules(import_as: Import) -> None:
    def typed_in(module: str) -> None:
        exec(f"class Mine(Stops):\n    kind = 'mine'\n    __module__ = {module!r}", {"Stops": Stops})

    typed_in("notebook")
    typed_in("notebook")
    with pytest.raises(TypeError, match=r"notebook\.Mine \(of no file\) and console\.Mine \(of no file\)"):
        typed_in("console")
