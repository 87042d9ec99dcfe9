"""The look of every chart: colours safe for colour-blind readers, in light and dark, and one shape a verdict.

A chart is always built in the LIGHT palette. Each colour of it stands for one role, so the dark chart is the same chart
with every colour exchanged for its partner (`recolour`); the page does the same in the browser, and no data is sent twice.
"""

from dataclasses import dataclass, fields
from typing import Any

import altair as alt
import pandas as pd

VERDICTS = ("PASS", "FAIL", "INCONCLUSIVE", "ERROR", "NO TARGET")
SHAPES = {"PASS": "circle", "FAIL": "triangle-down", "INCONCLUSIVE": "diamond", "ERROR": "cross", "NO TARGET": "square"}
GLYPHS = {"PASS": "●", "FAIL": "▼", "INCONCLUSIVE": "◆", "ERROR": "✚", "NO TARGET": "■"}
MODES = ("serial", "batch")
WIDTH = 640  # px of a plot in a PNG; the page puts the room it has in its place
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', Verdana, sans-serif"


@dataclass(frozen=True)
class Palette:
    """Colours by role. No two roles share a colour, or the exchange of palettes would mix them up."""

    paper: str
    ink: str
    muted: str
    grid: str
    shade: str  # areas that must not compete with data: passing side of a target, gaps
    passed: str
    failed: str
    undecided: str
    broken: str
    untargeted: str
    serial: str
    batch: str
    series: tuple[str, ...]

    def verdicts(self) -> dict[str, str]:
        return dict(zip(VERDICTS, (self.passed, self.failed, self.undecided, self.broken, self.untargeted), strict=True))

    def colours(self) -> list[str]:
        """Every colour, in the order of the roles."""
        flat: list[str] = []
        for field in fields(self):
            value = getattr(self, field.name)
            flat.extend(value if isinstance(value, tuple) else [value])
        return flat


LIGHT = Palette(
    paper="#ffffff",
    ink="#1b1f24",
    muted="#57606a",
    grid="#e3e7ec",
    shade="#8fa3b8",
    passed="#00795c",
    failed="#c23b00",
    undecided="#b38600",
    broken="#8a2f88",
    untargeted="#6e7781",
    serial="#7b8490",
    batch="#0b63b5",
    series=("#3b6ea8", "#b0602f", "#3f8f86", "#9c4f86", "#7a7a2e", "#5a55a3", "#a33f4b", "#4c7d3c"),
)
DARK = Palette(
    paper="#15191f",
    ink="#e9ecf0",
    muted="#a8b1bc",
    grid="#2c333d",
    shade="#5d7084",
    passed="#35cfa3",
    failed="#ff8b4d",
    undecided="#e6c84f",
    broken="#de8fdb",
    untargeted="#9aa4b0",
    serial="#aab3bf",
    batch="#62b5ff",
    series=("#86b3e6", "#e3a274", "#79cfc5", "#dc9bc9", "#c6c56d", "#a9a4ee", "#ef8f98", "#94c982"),
)

Drawn = alt.Chart | alt.LayerChart | alt.VConcatChart | alt.HConcatChart | alt.FacetChart | alt.ConcatChart


def swaps() -> dict[str, str]:
    """Light colour -> dark colour, role by role."""
    return dict(zip(LIGHT.colours(), DARK.colours(), strict=True))


def recolour(spec: Any) -> Any:
    """The dark form of a chart's dictionary: a copy with every light colour exchanged."""
    table = swaps()

    def walk(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: walk(value) for key, value in node.items()}
        if isinstance(node, list):
            return [walk(value) for value in node]
        return table.get(node, node) if isinstance(node, str) else node

    return {key: (value if key == "datasets" else walk(value)) for key, value in spec.items()}


def present(values: pd.Series) -> list[str]:
    """The verdicts that occur, in their fixed order."""
    seen = set(values)
    return [verdict for verdict in VERDICTS if verdict in seen]


def verdict_shape(values: pd.Series, field: str = "verdict") -> alt.Shape:
    """Shape by verdict; merges with `verdict_fill` into one legend."""
    domain = present(values)
    scale = alt.Scale(domain=domain, range=[SHAPES[verdict] for verdict in domain])
    return alt.Shape(f"{field}:N", scale=scale, legend=_legend(), title="verdict")


def verdict_fill(values: pd.Series, field: str = "verdict") -> alt.Fill:
    """Fill by verdict, in the same order and colours on every chart."""
    domain = present(values)
    scale = alt.Scale(domain=domain, range=[LIGHT.verdicts()[verdict] for verdict in domain])
    return alt.Fill(f"{field}:N", scale=scale, legend=_legend(), title="verdict")


def mode_colour(field: str = "mode", legend: bool = True) -> alt.Color:
    """Serial grey, batch blue: they differ in lightness too."""
    scale = alt.Scale(domain=list(MODES), range=[LIGHT.serial, LIGHT.batch])
    return alt.Color(f"{field}:N", scale=scale, title="mode", legend=alt.Legend(symbolOpacity=1) if legend else None)


def _legend() -> alt.Legend:
    return alt.Legend(symbolOpacity=1, symbolSize=110)


def dress(chart: Any, title: str, finding: str) -> Drawn:
    """Title, alternative text that states the finding, and the configuration: the last step of every chart."""
    dressed: Drawn = chart.properties(title=title, description=finding, background=LIGHT.paper, padding=8).configure(**_config())
    return dressed


def notice(title: str, message: str) -> Drawn:
    """A chart of nothing that says so: no point, or none that can be drawn."""
    rows = alt.InlineData(values=[{"message": message}])
    text = alt.Chart(rows).mark_text(fontSize=14, color=LIGHT.muted, lineBreak="\n", limit=WIDTH).encode(text="message:N")
    box = alt.Chart(rows).mark_rect(color=LIGHT.shade, opacity=0.12)
    return dress(alt.layer(box, text).properties(width=WIDTH, height=120), title, message)


def _config() -> dict[str, Any]:
    axis = {
        "domainColor": LIGHT.muted,
        "gridColor": LIGHT.grid,
        "labelColor": LIGHT.muted,
        "tickColor": LIGHT.muted,
        "titleColor": LIGHT.ink,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": 500,
        "labelOverlap": True,
    }
    legend = {
        "orient": "top",
        "labelColor": LIGHT.ink,
        "titleColor": LIGHT.muted,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": 500,
        "titleOrient": "left",
        "labelLimit": 560,  # px; the page sets the room it has
    }
    return {
        "font": FONT,
        "axis": axis,
        "legend": legend,
        "header": {"labelColor": LIGHT.ink, "titleColor": LIGHT.ink, "labelFontSize": 12},
        "title": {"anchor": "start", "color": LIGHT.ink, "fontSize": 15, "fontWeight": 600, "offset": 12},
        "view": {"stroke": None, "continuousWidth": WIDTH},
        "text": {"color": LIGHT.ink},
        "rule": {"color": LIGHT.ink},
    }
