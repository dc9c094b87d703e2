"""The order in which the gallery shows the examples."""

from pathlib import Path

_USES = [
    "grow_to_size.py",
    "right_size_in_a_pipeline.py",
    "choose_the_bagging_fraction.py",
    "truncate_a_finished_forest.py",
    "predict_faster.py",
    "forest_in_c.py",
    "size_what_predict_returns.py",
    "score_out_of_bag.py",
    "send_a_report.py",
    "rows_in_files.py",
    "rows_on_dask.py",
    "grow_on_dask.py",
    "predict_on_spark.py",
    "scikit_learn_ensembles.py",
    "sets_that_hold_the_truth.py",
    "serve_a_certified_forest.py",
    "search_in_a_pipeline.py",
    "why_sizes_differ.py",
    "forest_on_a_small_device.py",
]


class ByUse:
    """From training to prediction; an example that is not listed comes last."""

    def __init__(self, source: str) -> None:
        self.source = source

    def __call__(self, filename: str) -> tuple[int, str]:
        name = Path(filename).name
        return (_USES.index(name) if name in _USES else len(_USES), name)
