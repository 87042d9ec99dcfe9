"""The words and tables of the site's pages."""

import shlex
from pathlib import Path
from typing import Any

import pandas as pd

from dashboards import frames, theme
from dashboards.charts import leg_moves
from dashboards.pages import Cell, Grid, commit_cell
from dashboards.run_view import SEVERITY, json_object
from dashboards.series_names import named
from storage import queries

REPLAYED = ("checkpoint", "devices", "tp", "slots", "context", "prompt_tokens", "new_tokens", "warmup", "runs", "seed")
OPEN_SERIES = 4  # whose tiles and noise are open on the overview; of more, the rest is folded
SIGNS = {">=": "≥", "<=": "≤"}


def headline(latest: pd.DataFrame) -> str:
    """The state of all targets in one line."""
    if latest.empty:
        return "No verdict is in the store yet"
    counts = frames.verdict_names(latest["status"]).value_counts()
    parts = [f"{counts[name]} {name}" for name in reversed(SEVERITY) if name in counts]
    return f"Is batching paying? {frames.listing(parts)}"


def tiles(latest: pd.DataFrame) -> list[dict[str, Any]]:
    """A group a series, a tile a target: what, value, verdict, how sure. The series with the worst verdict comes first; of
    many the later ones are folded to a count of their verdicts.
    """
    groups: list[dict[str, Any]] = []
    for series, rows in latest.groupby("series", sort=False, dropna=False):
        made = [_tile(row) for row in frames.rows(rows.sort_values(["level", "metric"], kind="stable"))]
        verdicts = [tile["verdict"] for tile in made]
        counts = [(verdicts.count(name), name) for name in SEVERITY if name in verdicts]
        groups.append({"series": str(series), "tiles": made, "counts": counts})
    groups.sort(key=lambda group: [SEVERITY.index(name) for _, name in group["counts"][:1]] or [len(SEVERITY)])
    return [group | {"folded": place >= OPEN_SERIES} for place, group in enumerate(groups)]


def _tile(row: dict[str, Any]) -> dict[str, str]:
    spread = frames.interval(row["low"], row["high"]) or "a point, no interval"
    bound = "" if frames.absent(row["target"]) else f", target {SIGNS.get(row['direction'], '')}\u00a0{row['target']:g}"
    what = f"{frames.level_label(row['level'])}: {frames.metric_label(row['metric'])}"
    verdict = str(frames.verdict_names(pd.Series([row["status"]])).iloc[0])
    return {"what": what, "value": frames.figure(row["ratio"]), "verdict": verdict, "how": spread + bound}


def run_grid(runs: pd.DataFrame, linked: list[str], commit_url: str | None, last: int = 30) -> Grid:
    """The newest runs with links to their points."""
    have = set(linked)
    rows: list[list[Cell]] = [
        [
            {"text": str(row["run_id"]), "href": f"points/{row['run_id']}.html"} if row["run_id"] in have else str(row["run_id"]),
            commit_cell(row["commit"], commit_url),
            "" if frames.absent(row["started_at"]) else f"{row['started_at']:%Y-%m-%d %H:%M}",
            f"{int(row['valid_pairs'])} of {int(row['pairs'])}",
            *(_tally(row[name]) for name in ("passes", "fails", "undecided", "errors")),
        ]
        for row in frames.rows(runs.head(last))
    ]
    columns = ["run", "commit", "started (UTC)", "valid pairs", "PASS", "FAIL", "INCONCLUSIVE", "ERROR"]
    caption = f"The newest {len(rows)} of {frames.count(len(runs), 'run')}"
    return Grid("runs", caption, columns, rows, frozenset(range(3, 8)), "No run is in the store yet.", "Runs")


def _tally(count: Any) -> str:
    """Nothing where the run came to no verdicts: interrupted, or a night of the canary alone."""
    return "" if frames.absent(count) else str(int(count))


def noise_grid(snapshot: Path, names: dict[str, str]) -> Grid:
    """How restless the newest night of each series was."""
    noise = named(queries.noise_floor(snapshot), names)
    newest = noise.sort_values("measured_at").drop_duplicates(["series", "level"], keep="last").sort_values(["series", "level"])
    rows: list[list[Cell]] = [
        [
            str(row["series"]),
            frames.level_label(row["level"]),
            *(percent(row[name]) for name in ("serial_cv", "batch_cv", "ratio_cv")),
            frames.figure(row["canary_ratio"]),
        ]
        for row in frames.rows(newest)
    ]
    columns = ["series", "level", "serial CV", "batch CV", "ratio CV", "canary (A/A)"]
    caption = "Spread between processes that measured the same, and the same build against itself"
    numeric, many = frozenset({2, 3, 4, 5}), newest["series"].nunique() > OPEN_SERIES
    return Grid("noise", caption, columns, rows, numeric, "No pair counts yet.", "Noise floor", folded=many)


def failed_build_grid(builds: pd.DataFrame, commit_url: str | None) -> Grid:
    """Commits that could not be built, newest first."""
    rows: list[list[Cell]] = [
        [
            commit_cell(row["commit"], commit_url),
            "—" if frames.absent(row["asked_at"]) else f"{row['asked_at']:%Y-%m-%d %H:%M}",
            str(row["failure"]).strip(),
            str(int(row["attempts"])),
            "drawn" if not frames.absent(row["position"]) else "no place in the history",
            str(row["run_id"]),
        ]
        for row in frames.rows(builds.iloc[::-1])
    ]
    columns = ["commit", "when (UTC)", "why", "attempts", "in the trend", "run"]
    caption = "Commits whose engine could not be built, so that nothing was measured"
    return Grid("builds", caption, columns, rows, frozenset({3}), empty="No build failed.", title="Failed builds")


def mover_grid(snapshot: Path, names: dict[str, str], last: int = 12) -> Grid:
    """The newest changes from run to run in which a leg moved."""
    moved = named(queries.which_leg_moved(snapshot), names)
    moved = moved[moved["mover"].isin(["serial", "batch", "both"])].sort_values("measured_at", ascending=False).head(last)
    rows: list[list[Cell]] = [
        [
            str(row["run_id"]),
            _ratio_of(row),
            *(f"{row[name]:+.1%}" for name in ("ratio_change", "serial_change", "batch_change")),
            str(row["mover"]) + (": no improvement, the batch leg did not get better" if row["hollow"] else ""),
            str(row["series"]),
        ]
        for row in frames.rows(moved)
    ]
    columns = ["run", "ratio of", "ratio", "serial leg", "batch leg", "moved", "series"]
    caption = "Changes from one run of a series to the next, split into the legs"
    return Grid("movers", caption, columns, rows, frozenset({2, 3, 4}), "No leg moved beyond its noise.", "Which leg moved")


def point_grid(frame: pd.DataFrame, commit_url: str | None, last: int = 40) -> Grid:
    """The newest points of the trend as a table, newest first, with links to points and commits."""
    ordered = frame.sort_values(["commit_position", "run_id", "level"], na_position="last", kind="stable")
    rows: list[list[Cell]] = [
        [
            commit_cell(row["commit"], commit_url),
            _ratio_of(row),
            frames.figure(row["ratio"]),
            frames.interval(row["low"], row["high"]) or "point",
            {"verdict": str(frames.verdict_names(pd.Series([row["verdict"]])).iloc[0])},
            str(row["series"]),
            {"text": str(row["run_id"]), "href": row["href"]} if row["href"] else str(row["run_id"]),
        ]
        for row in frames.rows(ordered.tail(last).iloc[::-1])
    ]
    columns = ["commit", "ratio of", "ratio", "interval", "verdict", "series", "run"]
    return Grid("points", f"The newest {len(rows)} points drawn", columns, rows, frozenset({2, 3}), "No run is in the store yet.")


def leg_grid(legs: pd.DataFrame) -> Grid:
    """Every leg of the chart `leg_throughput` at the newest commit, and how far it moved; legs: that chart's frame."""
    moved = leg_moves.moves(leg_moves.prepare(legs))
    several = moved["series"].nunique() > 1
    rows: list[list[Cell]] = []
    for (series, _), both in moved.groupby(["series", "level"]):
        modes = {str(row["mode"]): row for row in frames.rows(both)}
        figures = [_leg(modes.get(mode, {}), column) for column in ("last", "step", "change") for mode in theme.MODES]
        whose: list[Cell] = [str(series)] if several else []
        what = f"{both['panel'].iloc[0]}: {leg_moves.unit(both['level'].iloc[0])}"
        rows.append([*whose, what, *figures, str(int(both["commits"].max()))])
    columns = [f"{mode}{of}" for of in (", newest", ", last step", ", since first") for mode in theme.MODES]
    first = len(columns) + several
    caption = "Each leg at the newest commit drawn, against the commit before it and against the first"
    names = [*(["series"] if several else []), "level", *columns, "commits"]
    return Grid("moves", caption, names, rows, frozenset(range(1 + several, first + 2)), "No run has both legs yet.")


def _leg(row: dict[str, Any], column: str) -> str:
    value = row.get(column)
    if frames.absent(value):
        return "—"
    return frames.figure(value) if column == "last" else f"{value:+.1%}"


def other_series_grid(history: pd.DataFrame, run_id: str, linked: list[str], names: dict[str, str]) -> Grid | None:
    """Where to find what a page on `run_id` does not draw: the newest run of each series that it is not of; None without any."""
    newest = history.sort_values("run_id", kind="stable").drop_duplicates("series", keep="last")
    others = named(newest[~newest["series"].isin(set(history.loc[history["run_id"] == run_id, "series"]))], names)
    have = set(linked)
    rows: list[list[Cell]] = [
        [
            str(row["series"]),
            {"text": str(row["run_id"]), "href": f"points/{row['run_id']}.html"} if row["run_id"] in have else str(row["run_id"]),
        ]
        for row in frames.rows(others.sort_values("series", kind="stable"))
    ]
    caption = f"The newest run of each series that this page does not draw: {len(rows)}"
    grid = Grid("others", caption, ["series", "run"], rows, title="Other series", folded=len(rows) > OPEN_SERIES)
    return grid if rows else None


def exclusion_grid(snapshot: Path, run_id: str) -> Grid:
    """What was measured or planned in this run and reaches no ratio."""
    found = queries.exclusions(snapshot, run_id)
    rows: list[list[Cell]] = [[str(row["measurement"]), str(row["reason"])] for row in frames.rows(found)]
    empty = "Everything that was measured reaches a ratio."
    return Grid(
        "excluded", "Measurements that reach no ratio, and why", ["measurement", "why"], rows, empty=empty, title="Left out"
    )


def replay_commands(records: pd.DataFrame) -> str:
    """A command line for each measurement of the first pair: the rest differ in nothing but the repetition."""
    counted = records[records["kind"].isin(["latency", "throughput"])].drop_duplicates(["kind", "level", "mode"])
    return "\n".join(_replay(str(row["kind"]), json_object(row["spec"])) for row in frames.rows(counted))


def _replay(kind: str, spec: dict[str, Any]) -> str:
    levels = ["--levels", str(spec["level"])] if kind == "throughput" else []
    options = [part for name in REPLAYED for part in (f"--{name.replace('_', '-')}", str(spec[name]))]
    return shlex.join(["paceline", "measure", kind, "--mode", str(spec["mode"]), *levels, *options])


def percent(value: Any) -> str:
    """'1.2 %', '—' for what is absent."""
    return "—" if frames.absent(value) else f"{100 * value:.1f} %"


def _ratio_of(row: dict[str, Any]) -> str:
    return f"{frames.level_label(row['level'])}: {frames.metric_label(row['metric'])}"
