"""Templates, the Vega bundle and charts put into pages: what report and site share."""

import functools
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import altair as alt
import jinja2
import vl_convert
from markupsafe import Markup

from dashboards import frames, theme

TEMPLATES = Path(__file__).parent / "templates"
PNG_SCALE = 2.0

Link = dict[str, str]  # {"href", "text"}, or {"verdict"}
Cell = str | Link


@dataclass(frozen=True)
class Grid:
    """A table for a page: first column the row's heading, `numeric` the columns set to the right."""

    id: str
    caption: str
    columns: list[str]
    rows: list[list[Cell]]
    numeric: frozenset[int] = frozenset()
    empty: str = "Nothing here."
    title: str = ""  # heading above it, where a page has several
    folded: bool = False  # long and rarely wanted: shown when asked for


@dataclass(frozen=True)
class Figure:
    """A chart on a page. `spec` is its JSON, safe inside a script element."""

    name: str
    title: str
    finding: str
    spec: Markup
    png: str | None = None
    data: Grid | None = field(default=None)


def figure(name: str, chart: theme.Drawn, png: str | None = None, data: Grid | None = None) -> Figure:
    """Make a chart part of a page. Its title becomes the heading, its description the finding beneath."""
    spec = chart.to_dict()
    return Figure(name, str(spec["title"]), str(spec["description"]), embedded(spec), png, data)


def commit_cell(commit: Any, template: str | None) -> Cell:
    """A commit's short name, linked where the site knows how."""
    name = frames.short_commit(None if frames.absent(commit) else str(commit))
    return name if template is None or name == "unknown" else {"text": name, "href": template.replace("{commit}", str(commit))}


def embedded(value: Any) -> Markup:
    """Strict JSON for a script element: no '<' in it, so no end tag and no comment can begin. Raises ValueError for NaN."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))  # noqa: S704


def render(template: str, **values: Any) -> str:
    """A page from its template; every value is escaped unless it is Markup."""
    return _templates().get_template(template).render(glyphs=theme.GLYPHS, **values)


def script() -> Markup:
    """The page's own script."""
    return _asset("page.js")


def style() -> Markup:
    """The pages' style sheet."""
    return _asset("style.css")


def swaps() -> Markup:
    """Light to dark colours, for the page's script."""
    return embedded(theme.swaps())


@functools.cache
def bundle() -> Markup:
    """Vega, Vega-Lite and vega-embed as one script (about 0.9 MB), from the installed vl-convert: no network."""
    text = vl_convert.javascript_bundle(None, vl_version=_vegalite())  # type: ignore[arg-type]  # its stub hides that None means all three
    return Markup(re.sub(r"</(script)", r"<\\/\1", text, flags=re.IGNORECASE))  # noqa: S704


def png(chart: theme.Drawn, path: Path, dark: bool = False) -> Path:
    """Draw a chart into a PNG file, offline."""
    path.write_bytes(vl_convert.vegalite_to_png(json_text(chart, dark), vl_version=_vegalite(), scale=PNG_SCALE))
    return path


def svg(chart: theme.Drawn, path: Path, dark: bool = False) -> Path:
    """Draw a chart into an SVG file, offline."""
    path.write_text(vl_convert.vegalite_to_svg(json_text(chart, dark), vl_version=_vegalite()), encoding="utf-8")
    return path


def json_text(chart: theme.Drawn, dark: bool = False) -> str:
    """The chart as strict Vega-Lite JSON."""
    spec = chart.to_dict()
    return json.dumps(theme.recolour(spec) if dark else spec, allow_nan=False)


def _vegalite() -> str:
    """Altair's Vega-Lite, '6.4' of 'v6.4.1'."""
    return ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])


@functools.cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined)
    environment.trim_blocks = environment.lstrip_blocks = True
    return environment


def _asset(name: str) -> Markup:
    return Markup((TEMPLATES / name).read_text(encoding="utf-8"))  # noqa: S704
