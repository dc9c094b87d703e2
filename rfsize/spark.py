"""Predictions of a compiled forest on Spark: `import rfsize.spark`, with the extra ``rfsize[spark]``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rfsize._util import choice
from rfsize.inference.compiled import CompiledForest

_OUTPUTS = ("prediction", "label", "probability")


def predict_udf(fast: CompiledForest, output: str = "prediction") -> Any:
    """A pandas UDF that predicts with a compiled forest, from the columns that it was trained on.

    Parameters
    ----------
    fast : CompiledForest
        A forest from `rfsize.compile`, with or without a stop table. Spark sends it with the UDF, and broadcasts it if
        it is large.
    output : {"prediction", "label", "probability"}, default "prediction"
        "prediction" is the output of ``fast.predict``: labels or numbers of an estimator, probabilities of a Booster.
        "label" is the class label. "probability" is an array with the probability of each class, in the order of
        ``fast.classes``.

    Returns
    -------
    pandas UDF
        It takes the features as columns, in the order of training. Use it like any other UDF, for example in
        ``DataFrame.withColumn``.

    Raises
    ------
    ValueError
        If ``fast`` is not a compiled forest, or a regression is asked for labels or probabilities.
        When Spark computes the column: if the columns do not fit the forest.

    See Also
    --------
    compile : Make the forest that predicts.

    Examples
    --------
    In a Spark session, with a DataFrame ``rows`` that has the columns ``names``:

    >>> import rfsize.spark
    >>> label = rfsize.spark.predict_udf(fast)  # doctest: +SKIP
    >>> rows.withColumn("label", label(*names))  # doctest: +SKIP
    """
    import pandas as pd
    from pyspark.sql.functions import pandas_udf

    if not isinstance(fast, CompiledForest):
        raise ValueError(f"expected a compiled forest, got a {type(fast).__qualname__}: give rfsize.compile(model)")
    choice("output", output, _OUTPUTS)
    if output in ("label", "probability") and not fast.classes.size:
        raise ValueError(f"the forest predicts numbers, and output={output!r} is for classes: leave output out")
    predict = {"prediction": fast.predict, "label": fast.predict_labels, "probability": fast.predict_proba}[output]
    names = fast.forest.feature_names

    def predicted(batches: Any) -> Any:
        for columns in batches:
            rows = pd.concat(columns, axis=1)
            rows.columns = names or [str(place) for place in range(rows.shape[1])]
            values = predict(rows if names else rows.to_numpy())
            yield pd.Series(list(values) if values.ndim > 1 else values)

    predicted.__annotations__ = {"batches": Iterator[tuple[pd.Series, ...]], "return": Iterator[pd.Series]}
    return pandas_udf(predicted, _type_of(fast, output))


def _type_of(fast: CompiledForest, output: str) -> str:
    """Spark's name for the type of the predictions."""
    if output == "probability":
        return "array<double>"
    labels = {"i": "bigint", "u": "bigint", "f": "double", "b": "boolean"}
    number = "float" if fast.forest.precision == np.float32 else "double"
    if output == "label" or fast.forest.output == "labels":
        return labels.get(fast.classes.dtype.kind, "string")
    return f"array<{number}>" if fast.forest.predicts_each_class else number
