"""The documentation site: ``python -m sphinx -W --keep-going -b html docs docs/_build/html``, without a network."""

import dataclasses
import os
import re
import shutil
import sys
from importlib.metadata import version as installed_version
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))
import elsewhere

project = "rfsize"
author = "The rfsize developers"
copyright = author
release = version = installed_version("rfsize")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "numpydoc",
    "myst_nb",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "command_help",
    "mathml",
]
# The gallery's pages are written from examples/*.py; these are its own lists, timings and notebooks.
exclude_patterns = ["_build", "sg_execution_times.rst", "auto_examples/sg_execution_times.rst"]
exclude_patterns += ["auto_examples/**.ipynb"]
templates_path = ["_templates"]

# In docstrings, `size` is the function of that name.
default_role = "py:obj"
# Types stand in the sections of the docstrings, where they say more than annotations do.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_generate = True
numpydoc_show_class_members = False
toc_object_entries_show_parents = "hide"
add_function_parentheses = False

# Notebooks are shown with the outputs that they are kept with.
nb_execution_mode = "off"
nb_merge_streams = True
shutil.copytree(
    Path(__file__).parents[1] / "examples" / "notebooks", Path(__file__).parent / "notebooks", dirs_exist_ok=True
)

myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath"]
html_math_renderer = "mathml"

# What a block prints has no button: there is nothing to paste.
copybutton_selector = "div.highlight-python pre, div.highlight-sh pre, div.highlight-default pre, div.highlight-c pre"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

intersphinx_mapping = elsewhere.mapping(Path(__file__).parent / "reference" / "generated" / "inventories")

os.environ["TQDM_DISABLE"] = "1"
# The examples' forests are so small that their threads mostly wait for one another: let them sleep meanwhile.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
_RUNS_SPARK = shutil.which("java") is not None and find_spec("pyspark") is not None
sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["auto_examples"],
    # Elsewhere the page of Spark is shown without its output.
    "filename_pattern": r"\.py$" if _RUNS_SPARK else r"(?<!_spark)\.py$",
    "within_subsection_order": "reading_order.ByUse",
    # Each page of the API shows the examples that use the name.
    "doc_module": ("rfsize",),
    "backreferences_dir": "reference/generated/backreferences",
    "capture_repr": (),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "write_computation_times": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
}

html_theme = "pydata_sphinx_theme"
html_title = f"rfsize {release}"
html_static_path = ["_static"]
html_favicon = "_static/logo.svg"
html_css_files = ["rfsize.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {
        "text": "rfsize",
        "image_light": "_static/logo.svg",
        "image_dark": "_static/logo.svg",
        "alt_text": "rfsize",
    },
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_prev_next": True,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": [], "glossary": []},
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
}
# One page each: there is nothing to list beside them.
html_sidebars = {page: [] for page in ("index", "getting_started", "install", "glossary", "changelog")}

# Members that carry results between parts of rfsize, or that scikit-learn adds.
_NOT_FOR_USERS = {"of", "built_for", "class_labels", "set_score_request", "set_fit_request"}


def _skip(app, what, name, obj, skip, options):
    return True if name in _NOT_FOR_USERS else None


def _leave_out_fields(app, what, name, obj, options, signature, return_annotation):
    """Records are returned, not made: their fields stand under Attributes."""
    return ("", None) if what == "class" and dataclasses.is_dataclass(obj) else None


def _open_gallery(app, docname, source):
    """Examples are scripts and notebooks where nothing is built, and pages here."""
    source[0] = re.sub(r"\]\((?:\.\./)+examples/(notebooks/\w+\.ipynb)\)", r"](/\1)", source[0])
    source[0] = re.sub(r"\]\((?:\.\./)+examples/(?!recipes/)([\w/]+)\.py\)", r"](/auto_examples/\1.rst)", source[0])


def setup(app):
    """Register the hooks on docstrings and on links to examples."""
    app.connect("source-read", _open_gallery)
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-signature", _leave_out_fields)
