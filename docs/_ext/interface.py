"""Writes the signatures of the whole interface to reference/generated, for the page that shows it at once."""

import inspect
import textwrap
from pathlib import Path

import rfsize
import rfsize.dask
import rfsize.spark

# Functions, and classes with the attributes and methods that you use.
GROUPS = {
    "Ask the trees once": {
        "tree_outputs": (),
        "TreeOutputs": ("n_trees", "y", "votes", "scores", "by_tree", "predict", "predict_labels", "predict_proba"),
        "Votes": ("counts", "n_votes", "classes", "n_trees", "fractions", "winner"),
        "inbag": (),
    },
    "How many trees are enough": {
        "size": (),
        "truncate": (),
        "shrink": (),
        "Report": (
            *("n_trees", "interval", "enough", "n_kept", "available", "reason", "warnings"),
            *("upper", "size_at", "loss_at", "plot", "to_html", "to_dict"),
        ),
    },
    "Train to size": {
        "grow": (),
        "SizeCallback": ("report_", "seconds_to_go_"),
        "RightSizedClassifier": ("fit", "predict", "predict_proba"),
        "RightSizedRegressor": ("fit", "predict"),
        "select_bagging_fraction": (),
        "FractionSearch": ("best", "params", "curve", "plot", "to_frame", "to_html", "to_dict"),
    },
    "Out of bag": {
        "oob_predict": (),
        "oob_predict_proba": (),
        "oob_score": (),
        "OobScore": ("value", "at_all_trees", "interval", "curve", "plot", "to_html", "to_dict"),
        "oob_importance": (),
        "Importances": ("columns", "score", "size", "plot", "to_html", "to_dict"),
        "compare": (),
        "Comparison": ("values", "at_hand", "limit", "to_html", "to_dict"),
    },
    "Predict": {
        "compile": (),
        "load": (),
        "CompiledForest": ("classes", "n_trees", "predict", "predict_labels", "predict_proba", "save", "to_c"),
        "CompiledMean": ("forests", "classes", "n_trees", "predict", "predict_labels", "predict_proba", "save"),
        "StopTable": ("certificate", "build", "calibrate", "lossless", "apply", "plot", "save", "load"),
    },
    "Dask and Spark": dict.fromkeys(
        ("dask.rows", "dask.grow", "dask.predict", "dask.predict_labels", "dask.predict_proba", "spark.predict_udf"), ()
    ),
}
# Classes that you make yourself; others are returned.
MADE = {"Votes", "SizeCallback", "RightSizedClassifier", "RightSizedRegressor"}
WIDTH = 110


def write(app):
    """One text file with all signatures, group by group."""
    folder = Path(app.srcdir) / "reference" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "interface.txt").write_text(interface(), encoding="utf-8")


def interface():
    """What the page shows."""
    groups = (
        "\n".join([f"# {title}", *(entry(name, members) for name, members in names.items())])
        for title, names in GROUPS.items()
    )
    return "\n\n".join(groups) + "\n"


def entry(name, members):
    """A function with its arguments, or a class with its attributes and the arguments of its methods."""
    found = rfsize
    for part in name.split("."):
        found = getattr(found, part)
    said = [call(f"rfsize.{name}", found) if not inspect.isclass(found) or name in MADE else f"rfsize.{name}"]
    methods = [member for member in members if callable(getattr(found, member, None))]
    attributes = ", ".join(f".{member}" for member in members if member not in methods)
    said += [f"    {line}" for line in textwrap.wrap(attributes, WIDTH - 4)]
    for member in methods:
        is_bound = inspect.isfunction(vars(found).get(member, getattr(found, member)))
        said.append(textwrap.indent(call(f".{member}", getattr(found, member), method=is_bound), "    "))
    return "\n".join(said)


def call(name, function, *, method=False):
    """The name with its arguments and their defaults, without types."""
    signature = inspect.signature(function)
    empty = inspect.Parameter.empty
    arguments = [one.replace(annotation=empty) for one in signature.parameters.values()][1 if method else 0 :]
    text = f"{name}{signature.replace(parameters=arguments, return_annotation=empty)}"
    return "\n".join(textwrap.wrap(text, WIDTH, subsequent_indent=" " * 8, break_on_hyphens=False))


def setup(app):
    """Before any page is read."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
