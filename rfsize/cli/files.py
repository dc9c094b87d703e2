"""Files of the command line: models, and tables of rows, which Arrow reads piece by piece from CSV and Parquet."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rfsize._files import written_whole
from rfsize._util import did_you_mean, rows_bar
from rfsize.models.columns import Columns, places_of
from rfsize.models.framework import Framework, ModelFiles, framework_named, framework_names, read_model
from rfsize.models.model import with_classes
from rfsize.models.streams import dataset_at, of_files

# Models

# What a child process runs: frameworks may crash on a damaged file, and would take this process with them.
_LOAD = """import pathlib, sys
import numpy as np
from rfsize.models.framework import framework_named, read_model
files = framework_named(sys.argv[1]).files
model = read_model(files.load(pathlib.Path(sys.argv[2])))
if model.ensemble is not None:
    model.apply(np.zeros((1, model.n_features)))
"""


class LoadedModel(NamedTuple):
    """A model from a file.

    Attributes
    ----------
    model
        The model of the framework.
    files : ModelFiles
        Writes models of the framework.
    class_names : ndarray or None
        Label of each class, if `save_model` wrote labels; shape (n_classes,).
    """

    model: Any
    files: ModelFiles
    class_names: NDArray[Any] | None

    @property
    def columns(self) -> Columns:
        """The columns that the model was trained on."""
        return read_model(self.model).columns

    def with_class_names(self) -> Any:
        """The model; if there are class names, as rfsize reads it, with these names."""
        return self.model if self.class_names is None else with_classes(read_model(self.model), self.class_names)


def load_model(path: Path) -> LoadedModel:
    """Read a model with the framework that recognises the first bytes of the file.

    Raises
    ------
    ValueError
        If no framework recognises the file, its framework cannot read it, or the class names in it are damaged.
    """
    loaded = load_model_if_any(path)
    if loaded is None:
        readers, broken = _importable_files()
        kinds = " nor ".join(files.kind for files in readers.values())
        raise ValueError(f"{path} is neither {kinds}{''.join(f'; {error}' for error in broken)}")
    return loaded


def load_model_if_any(path: Path) -> LoadedModel | None:
    """Read a model as `load_model` does, but return None if no framework recognises the file."""
    content = path.read_bytes()
    for name, files in _importable_files()[0].items():
        if files.recognises(content):
            _load_in_child(name, path, files.kind)
            model = files.load(path)
            names = files.class_names(model, path)
            return LoadedModel(model, files, None if names is None else _class_names(model, names, path))
    if content.startswith(b"\x80") or path.suffix in {".pkl", ".pickle", ".joblib"}:
        raise ValueError(
            f"{path} is a pickle. rfsize reads no pickles, because reading one can run any program: save the model "
            "with save_model of LightGBM or XGBoost, or with skops.io.dump (pip install rfsize[skops]) of "
            "scikit-learn"
        )
    return None


def _load_in_child(name: str, path: Path, kind: str) -> None:
    """Raise ``ValueError`` if a child process cannot load the file, or dies of it."""
    command = [sys.executable, "-c", _LOAD, name, str(path)]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    if child.returncode:
        reason = child.stderr.strip().rpartition("\n")[2] or f"the process that read it ended with {child.returncode}"
        raise ValueError(
            f"{path} cannot be read as {kind} ({reason}): save the original model again, or train it again"
        )


def files_of(framework: Framework) -> ModelFiles:
    """How models of the framework are read and written; ``ValueError`` if rfsize cannot."""
    if framework.files is None:
        raise ValueError(f"the command line cannot read or write models of {framework.name}: use rfsize in Python")
    return framework.files


def _importable_files() -> tuple[dict[str, ModelFiles], list[ImportError]]:
    """Files of the frameworks that can be imported, and errors of the others. One framework does not need another."""
    readers: dict[str, ModelFiles] = {}
    broken: list[ImportError] = []
    for name in framework_names():
        try:
            files = framework_named(name).files
        except ImportError as error:
            broken.append(error)
        else:
            readers |= {} if files is None else {name: files}
    return readers, broken


def save_model(model: Any, files: ModelFiles, path: Path, classes: list[Any] | None) -> None:
    """Write a model, whole or not at all; with its class labels if these are not 0, 1, …."""
    with written_whole(path) as partial:
        files.save(model, partial)
        if classes is not None and classes != list(range(len(classes))):
            files.keep_class_names(model, partial, json.dumps(classes))


def _class_names(model: Any, text: str, path: Path) -> NDArray[Any]:
    """Read class names from a file that can come from anyone."""
    n_classes = read_model(model).classes.size
    try:
        labels = np.array(json.loads(text))
        np.char.encode(labels.astype(np.str_), "utf-8")  # fails for lone surrogates
    except (ValueError, RecursionError):
        labels = np.array([])
    if labels.shape != (n_classes,) or labels.dtype.kind not in "Ubif" or np.unique(labels).size != n_classes:
        raise ValueError(
            f"{path} names its classes {text[:80]!r}, which are not the names of {n_classes} classes: train it "
            "again with rfsize grow, or save it again with its framework, which drops the names"
        )
    return labels


# Tables

_ENDINGS = (".csv", ".csv.gz", ".parquet")
_BLOCK = 1 << 22  # bytes of CSV in a piece
_NULLS = ["None", "<NA>"]  # that pandas writes or reads, besides those of Arrow


class Table:
    """A table of rows: a file, or a folder of Parquet files.

    Parameters
    ----------
    path : Path
        The file or folder.

    Raises
    ------
    ValueError
        If the name shows no known format, or pandas or pyarrow is missing.
    """

    def __init__(self, path: Path) -> None:
        import_pandas(str(path))
        self._path, self._is_parquet = path, path.is_dir() or path.suffix.lower() == ".parquet"
        if not path.is_dir() and not path.name.lower().endswith(_ENDINGS):
            raise ValueError(f"{path} is not a known kind of table; give {', '.join(_ENDINGS)}")

    def __str__(self) -> str:
        return str(self._path)

    def read(self, numbers_stay: Collection[str | None] = ()) -> Any:
        """All rows as a pandas DataFrame; whole numbers stay what they are in these columns.

        Raises
        ------
        ValueError
            If the table cannot be read.
        """
        import pyarrow as pa

        with self._readable():
            pieces = of_files(dataset_at(self._path)).tables(None) if self._is_parquet else self._csv(numbers_stay)
            return _frame(pa.concat_tables(list(pieces)).unify_dictionaries())

    def pop(self, X: Any, name: str, purpose: str = "") -> Any:
        """Take a column out of the rows that were read, and return it.

        Raises
        ------
        ValueError
            If there is no such column; the message says what it is for.
        """
        if name not in X.columns:
            near = did_you_mean(name, list(map(str, X.columns)))
            raise ValueError(f"{self} has no column '{name}'{purpose}{near}; it has {list(X.columns)}")
        return X.pop(name)

    def pieces(self, columns: Columns) -> Iterator[Any]:
        """The rows as pandas DataFrames with the columns of training, piece by piece.

        Raises
        ------
        ValueError
            If the table cannot be read, or has other columns than at training.
        """
        with self._readable(), rows_bar("predicting", None) as bar:
            if self._is_parquet:
                rows = of_files(dataset_at(self._path))
                places, names = places_of(rows.names, rows.n_features, columns), rows.names or []
                tables = rows.tables(None if places is None else [names[place] for place in places])
            else:
                tables = self._csv(categories_of(columns))
            for table in tables:
                yield as_trained(_frame(table), columns)
                bar.update(table.num_rows)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        from pyarrow import ArrowException

        try:
            yield
        except (OSError, ArrowException) as error:
            raise ValueError(f"{self} could not be read: {' '.join(str(error).split())}") from error

    def _csv(self, numbers_stay: Collection[str | None]) -> Iterator[Any]:
        """Arrow tables of some megabytes each. The first of them decides the type of each column."""
        import pyarrow as pa
        from pyarrow import csv

        options: dict[str, Any] = {"parse_options": csv.ParseOptions(newlines_in_values=True)}
        options["read_options"] = csv.ReadOptions(block_size=_BLOCK)
        nulls = {"strings_can_be_null": True, "null_values": [*csv.ConvertOptions().null_values, *_NULLS]}

        def opened(**types: Any) -> Any:
            return csv.open_csv(self._path, convert_options=csv.ConvertOptions(**nulls, **types), **options)

        with opened() as reader:
            schema = reader.schema
        twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
        if twice:
            raise ValueError(f"the header of {self} names the columns {twice} twice: give each its own name")
        with opened(column_types={field.name: _type_to_read(field, numbers_stay) for field in schema}) as reader:
            batches = (pa.Table.from_batches([batch]) for batch in reader if batch.num_rows)
            yield next(batches, reader.schema.empty_table())
            yield from batches


def _type_to_read(field: Any, numbers_stay: Collection[str | None]) -> Any:
    """The type of a column in all pieces: whole numbers may have a fraction further down, and dates are text."""
    from pyarrow import float64, string, types

    if types.is_temporal(field.type):
        return string()
    is_number = types.is_integer(field.type) or types.is_null(field.type)
    return float64() if is_number and field.name not in numbers_stay else field.type


def with_categories(X: Any) -> Any:
    """The table to train on: columns of text are categorical."""
    texts = X.select_dtypes(include=["object", "string"]).columns
    return X.astype(dict.fromkeys(texts, "category"))


def categories_of(columns: Columns | None) -> list[str]:
    """Names of the features that were categorical at training."""
    if columns is None or columns.conventions is None or columns.names is None:
        return []
    return [columns.names[feature] for feature in columns.conventions.category_features or ()]


def as_trained(X: Any, columns: Columns) -> Any:
    """The columns that a forest was trained on, found by name if both have names.

    Columns that were categorical at training become categorical again, whatever type the reader gave them.
    """
    places = places_of([str(name) for name in X.columns], X.shape[1], columns)
    X = X if places is None else X.iloc[:, places]
    if columns.conventions is None:
        return X
    if columns.conventions.category_features is None:
        return with_categories(X)
    return X.astype({X.columns[feature]: "category" for feature in columns.conventions.category_features})


def _frame(table: Any) -> Any:
    """An Arrow table as a pandas DataFrame; booleans with gaps, which would become objects, become numbers."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if pa.types.is_boolean(field.type) and table.column(place).null_count:
            table = table.set_column(place, field.name, table.column(place).cast(pa.float64()))
    return table.to_pandas(ignore_metadata=True)


def import_pandas(name: str) -> Any:
    """pandas, once it is known that pyarrow is there too; ``ValueError`` names the table that needs them."""
    try:
        import pandas
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ValueError(f"reading or writing {name} needs {error.name}: pip install rfsize[files]") from None
    return pandas


@contextmanager
def prediction_writer(path: Path) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Writes columns, piece after piece, to a file that appears only if all went well.

    Raises
    ------
    ValueError
        If the name of the file ends in neither .csv nor .parquet.
    """
    if path.suffix not in {".csv", ".parquet"}:
        raise ValueError(f"predictions are written to a .csv or .parquet file, found {path}")
    pandas, parquet = import_pandas("predictions"), None
    with written_whole(path) as partial, ExitStack() as stack:

        def write(columns: dict[str, Any]) -> None:
            nonlocal parquet
            if path.suffix == ".csv":
                is_first = not partial.stat().st_size
                pandas.DataFrame(columns).to_csv(partial, mode="a", index=False, header=is_first)
                return
            import pyarrow.parquet

            piece = pyarrow.table(columns)
            if parquet is None:
                parquet = stack.enter_context(pyarrow.parquet.ParquetWriter(partial, piece.schema))
            parquet.write_table(piece)

        yield write
