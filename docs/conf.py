"""Settings of Sphinx; docs/_ext/build_site.py gives it the pages."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml
from docutils import nodes

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "lplab"
citation = yaml.safe_load((HERE.parent / "CITATION.cff").read_text("utf-8"))
author = ", ".join(each["name"] for each in citation["authors"])
version = tomllib.loads((HERE.parent / "pyproject.toml").read_text("utf-8"))["project"]["version"]
extensions = ["myst_nb", "sphinx_design", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "mathml"]
exclude_patterns: list[str] = []

# the labs come executed
nb_execution_mode = "off"
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # widgets are HTML already: docs/_ext/recorded.py
nb_merge_streams = True
nb_code_prompt_show = nb_code_prompt_hide = "code"
myst_enable_extensions = ["dollarmath", "colon_fence", "attrs_block"]
myst_heading_anchors = 4
# anchors that pages have as HTML are checked in the built pages: tests/test_site.py
suppress_warnings = ["myst.xref_missing", "myst.header", "misc.highlighting_failure", "ref.python"]

# docstrings are Google's style, and a word between single backquotes is code
napoleon_use_ivar = True
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
default_role = "code"
add_module_names = False

html_theme = "pydata_sphinx_theme"
html_title = "lplab"
html_favicon = str(HERE / "_static/icon.svg")
html_baseurl = os.environ.get("LPLAB_SITE", "").rstrip("/") + "/" if os.environ.get("LPLAB_SITE") else ""
html_static_path = [str(HERE / "_static"), str(HERE / "pictures/lab05.png"), os.environ["LPLAB_SITE_STATIC"]]
templates_path = [str(HERE / "_templates")]
html_search_scorer = str(HERE / "_ext/scorer.js")
html_css_files = ["live_figure.css", "bits.css", "mechanisms.css", "glossary_words.css", "site.css"]
html_js_files = [("recorded.js", {"type": "module"})]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "lplab"},
    "navbar_align": "left",
    "show_toc_level": 2,
    "show_nav_level": 1,
    "navigation_with_keys": False,
    "back_to_top_button": False,
    "footer_start": ["lp-footer"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
repository = os.environ.get("LPLAB_REPOSITORY")
if repository:
    html_theme_options["github_url"] = f"https://github.com/{repository}"


def date_of_last_commit():
    """The day of the last commit; "" where this is no clone, or git is missing."""
    command = ["git", "-C", str(HERE), "log", "-1", "--format=%cs"]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


html_context = {
    "default_mode": "auto",
    "lp_authors": author,
    "lp_date": date_of_last_commit(),
    "lp_repository": f"https://github.com/{repository}" if repository else "",
    "lp_picture": f"{html_baseurl}_static/lab05.png",
}


def describe(_app, _name, _template, context, doctree):
    """Give each page a description, its first sentences, for a link in a forum."""
    first = next((each.astext() for each in doctree.findall(nodes.paragraph)), "") if doctree else ""
    words = " ".join(first.split()) or citation["title"]
    context["lp_description"] = words if len(words) <= 200 else words[:200].rpartition(" ")[0] + " …"


def as_text(_app, _what, _name, _obj, _options, lines):
    """Let |x| and [*shape] in docstrings stay text: reStructuredText takes bars and stars for marks of its own."""
    in_doctest = False
    for k, line in enumerate(lines):
        in_doctest = bool(line.strip()) and (in_doctest or line.lstrip().startswith(">>>"))
        if not in_doctest:
            lines[k] = re.sub(r"(`[^`]*`)|(\||(?<=\[)\*)", lambda found: found[1] or rf"\{found[2]}", line)


def setup(app):
    """Tell Sphinx about the docstrings and the descriptions of pages."""
    app.connect("html-page-context", describe)
    app.connect("autodoc-process-docstring", as_text, priority=900)  # after napoleon
