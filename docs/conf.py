"""The documentation: ``sphinx-build -W -b html docs build/docs``. Notebooks are shown with the outputs committed beside them."""

import inspect
import re
import shutil
import sys
from importlib.metadata import version as installed
from pathlib import Path

from docutils import nodes
from iclflow.verify.evidence.map import graph, svg
from iclflow.verify.evidence.page import mathml

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))

project, author = "iclflow", "The iclflow authors"
release = version = installed("iclflow")
copyright = "the iclflow authors"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.viewcode", "dead_links"]
templates_path = ["_templates"]
exclude_patterns = ["_templates"]
nitpicky = False

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "off"
nb_merge_streams = True
nb_render_markdown_format = "myst"
# Of what a cell returns: the formula before its text, the picture before everything.
nb_mime_priority_overrides = [("html", "text/markdown", 5), ("html", "text/latex", 6)]

autosummary_generate = True
autodoc_default_options = {"members": True, "member-order": "bysource", "show-inheritance": False}
autodoc_typehints = "signature"
autodoc_class_signature = "separated"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
add_module_names = False
viewcode_follow_imported_members = False  # a named tuple says that it comes from a module of its own

html_theme = "furo"
html_title = "iclflow"
html_static_path = ["_static"]
html_css_files = ["iclflow.css"]
html_math_renderer = "mathml"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0072B2", "color-brand-content": "#0072B2"},
    "dark_css_variables": {"color-brand-primary": "#56B4E9", "color-brand-content": "#56B4E9"},
}
pygments_style = "tango"
html_show_sphinx = False


def gather(*_) -> None:
    """Sphinx reads one folder: executed notebooks are copied into it. Pages of modules and the map are made anew."""
    shutil.rmtree(HERE / "api", ignore_errors=True)
    target = HERE / "notebooks"
    target.mkdir(exist_ok=True)
    for old in target.glob("*.ipynb"):
        old.unlink()
    for notebook in (ROOT / "notebooks").glob("[0-9]*.ipynb"):
        shutil.copy(notebook, target)
    picture = svg(graph(), links="equations.html#eq-{}".format)
    (target / "map.svg").write_text(f'<div style="overflow-x: auto">{picture}</div>\n', encoding="utf-8")


def skip_methods(_app, what: str, _name, member, _skip, _options) -> bool | None:
    """A method of an object, imported by a module (``claim`` of the book), is not the module's own."""
    return True if what == "module" and inspect.ismethod(member) else None


def plain_prose(_app, _what, _name, _object, _options, lines: list[str]) -> None:
    """Docstrings are prose with formulas: in them * is a product and | an absolute value, neither of them markup; nor is v_."""
    literal = False
    for number, line in enumerate(lines):
        literal = line.startswith(" ") and literal if line.strip() else literal
        literal = literal or line.lstrip().startswith((".. ", ">>> "))
        if not literal:
            parts = re.split(r"(``.*?``|:\w+:`.*?`|`.*?`)", line)
            lines[number] = "".join(
                part if i % 2 else re.sub(r"(?<!\\)((?!^\* )[*|]|(?<=\w)_(?!\w))", r"\\\1", part) for i, part in enumerate(parts)
            )


def formula(node: nodes.Element, *, display: bool) -> str:
    """A formula as MathML; ValueError if it holds a command without MathML."""
    text = node.astext().replace(r"\tag{", r"\qquad\tag{")
    if display and ("\\\\" in text or "&" in text) and "\\begin" not in text:
        text = rf"\begin{{aligned}}{text}\end{{aligned}}"
    return mathml(text, display=display)


def inline(translator, node: nodes.math) -> None:
    """A formula in a sentence, as MathML, which browsers set without scripts or fonts from the network."""
    translator.body.append(formula(node, display=False))
    raise nodes.SkipNode


def block(translator, node: nodes.math_block) -> None:
    """A displayed formula; a wide one scrolls inside its own box."""
    translator.body.append(f'<div class="formula">{formula(node, display=True)}</div>')
    raise nodes.SkipNode


def setup(app) -> None:
    app.add_html_math_renderer("mathml", inline_renderers=(inline, None), block_renderers=(block, None))
    app.connect("config-inited", gather)
    app.connect("autodoc-skip-member", skip_methods)
    app.connect("autodoc-process-docstring", plain_prose)
