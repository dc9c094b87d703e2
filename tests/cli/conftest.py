"""Files as users of the command line have them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from helpers.command_line import NAMES
from helpers.forests import Data, train_lightgbm, train_xgboost


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, data: Data) -> Path:
    """Models and tables as users have them on disk."""
    folder = tmp_path_factory.mktemp("files")
    table = pd.DataFrame(data.X, columns=NAMES)
    train_lightgbm(table, data.y).save_model(folder / "lgb.txt")
    train_lightgbm(table, data.X[:, 0] + data.X[:, 1] ** 2, objective="regression").save_model(folder / "numbers.txt")
    model = train_xgboost(table, data.y)
    model.save_model(folder / "xgb.json")
    model.save_model(folder / "xgb.ubj")
    table.assign(target=data.y).to_csv(folder / "train.csv", index=False)
    table.assign(target=data.y).to_parquet(folder / "train.parquet")
    (folder / "parts").mkdir()
    for number, rows in enumerate(np.array_split(np.arange(len(table)), 3)):
        table.assign(target=data.y).iloc[rows].to_parquet(folder / "parts" / f"{number}.parquet")
    table.to_csv(folder / "features.csv.gz", index=False)
    pd.DataFrame(data.fresh, columns=NAMES).to_parquet(folder / "rows.parquet")
    (folder / "half.txt").write_text((folder / "lgb.txt").read_text()[:3000])
    (folder / "half.json").write_text((folder / "xgb.json").read_text()[:3000])
    (folder / "odd.json").write_text('{"learner": 3}')
    (folder / "text.txt").write_text("hello")
    for name, wide in (("wide", (0, 1, 2)), ("begins_wide", (0,)), ("ends_wide", (2,)), ("indexed", ())):
        rows = [",".join([str(row)] * 8) + "," * (row in wide) for row in range(3)]
        header = ",".join(NAMES[name == "indexed" :])
        (folder / f"{name}.csv").write_text("\n".join([header, *rows, ""]))
    for name in ("train.parquet", "features.csv.gz"):
        whole = (folder / name).read_bytes()
        (folder / f"cut.{name.partition('.')[2]}").write_bytes(whole[: len(whole) // 2])
    return folder


@pytest.fixture(scope="session")
def labelled(tmp_path_factory: pytest.TempPathFactory, data: Data) -> Path:
    """Training tables as users have them: with labels in words, numbers, and one missing."""
    folder = tmp_path_factory.mktemp("training")
    table = pd.DataFrame(data.X[:300], columns=NAMES)
    words = np.array(["low", "middle", "high"])[data.three[:300]]
    table.assign(level=words, sign=data.y[:300], size=data.X[:300, 0] ** 2).to_csv(folder / "train.csv", index=False)
    table.assign(level=[None, *words[1:]]).to_csv(folder / "missing.csv", index=False)
    table.assign(level="low").to_csv(folder / "constant.csv", index=False)
    table.assign(sign=data.y[:300]).to_csv(folder / "two.csv", index=False)
    (folder / "params.json").write_text('{"max_depth": 4, "seed": 5}')
    (folder / "list.json").write_text("[1]")
    return folder
