"""Configuration of the site: `make docs` builds it into out/site; pages work from a file and without a network.

Pages in Markdown can also be read on a code host. `_site/` contains the project's Sphinx extensions.
"""

import sys
from pathlib import Path

import pippin

sys.path.insert(0, str(Path(__file__).parent / "_site"))

from look import colours

project = "pippin"
author = "The pippin authors"
copyright = "The pippin authors, BSD-3-Clause"
version = release = pippin.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "api_links",
    "command_line",
    "folded",
    "gallery_links",
    "mathml",
    "names",
    "number_columns",
    "offline_search",
    "reachable",
    "trimmed",
    "words",
    "written_types",
]
default_role = "word"
exclude_patterns = ["_site", "gallery"]
INTERNAL = (  # types of attributes that users do not need
    r"Backend|Batched|Categories|ClassKinds|ColumnNumbers|Data|Groups|Labelled|Layout|NoveltyTest|Policy|Prints|Rows|"
    r"SharpeningModel|TableFile|TrainingRecord|Trial"
)
nitpicky = True
nitpick_ignore_regex = [  # documented elsewhere, or internal
    (r"py:\w+", r"(collections|matplotlib|np|numpy|onnx|polars|sklearn|torch|typing)\..*"),
    (r"py:\w+", INTERNAL),
    (r"py:\w+", r"AbstractContextManager|Axes|Callable|Iterable|Iterator|Mapping|MetadataRouter|NDArray|Sequence"),
]

add_module_names = False
toc_object_entries_show_parents = "hide"
autodoc_class_signature = "mixed"
autodoc_default_options = {
    "members": True,
    "special-members": "__call__, __getitem__",
    "inherited-members": "BaseEstimator, BaseException, ClassifierMixin, MetaEstimatorMixin, Module, ValueError, tuple",
    "member-order": "bysource",
}
autodoc_preserve_defaults = True
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_typehints_format = "short"
napoleon_numpy_docstring = False
napoleon_attr_annotations = True

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_dmath_double_inline = True
html_math_renderer = "mathml"

copybutton_prompt_text = r">>> |\.\.\. |\$ "  # copied without prompts and without output
copybutton_prompt_is_regexp = True

highlight_language = "none"
html_theme = "furo"
html_title = "pippin"
html_favicon = html_logo = "_static/pippin.svg"
html_search_scorer = str(Path(__file__).parent / "_site" / "scorer.js")
html_static_path = ["_static"]
html_css_files = ["pippin.css", "gallery.css"]
html_copy_source = html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {
    "navigation_with_keys": True,
    "top_of_page_buttons": [],
    "light_css_variables": colours(
        paper="#fbfaf6",
        card="#ffffff",
        ink="#22262a",
        quiet="#5d6369",
        line="#dedbd2",
        accent="#2f6b3c",
        band="#f3f1ea",
        good="#e9f4ea",
        marked="#f5ec7a",
        name="#8f2320",
    ),
    "dark_css_variables": colours(
        paper="#15181a",
        card="#1d2124",
        ink="#e8e5de",
        quiet="#a3a8ac",
        line="#363c40",
        accent="#8fce9b",
        band="#22272a",
        good="#1c2d21",
        marked="#6a6420",
        name="#f0a58f",
    ),
}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "answers",
    "backreferences_dir": None,
    "doc_module": ("pippin",),
    "subsection_order": [f"gallery/{group}" for group in ("basics", "acting", "changing_data", "integrations")],
    "within_subsection_order": "FileNameSortKey",
    "reset_modules": ("gallery_style.fresh",),
    "image_srcset": ["2x"],
    "abort_on_example_error": True,
    "write_computation_times": False,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,  # pages do not show their execution time
    "remove_config_comments": True,
}
