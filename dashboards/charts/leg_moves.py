"""The legs' rows made ready, how far each leg moved, and the finding in words."""

import pandas as pd

from dashboards import frames
from dashboards.charts import commit_axis

TEXT = ("run_id", "commit", "series", "mode")
NUMBERS = ("commit_position", "level", "value", "low", "high")
NOTHING = "No run has both legs yet."
FEW = 4  # series that are all drawn at once, each in panels of its own
SPOKEN = 3  # levels or series that the finding names
LEG = ["series", "level", "panel", "mode"]


def prepare(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame of `leg_throughput` with x (place on the axis), placed, name and panel, by series, level, mode and place.

    Rows without a value are left out. Raises FrameError for a missing column.
    """
    data = frames.ready(frame, "leg_throughput", TEXT, NUMBERS)
    data = data[data["value"].notna() & data["level"].notna()]
    data = data.assign(series=data["series"].fillna("unknown"), commit=data["commit"].fillna("unknown"))
    data = commit_axis.with_places(data)
    data["panel"] = [frames.level_label(level) for level in data["level"]]
    return data.sort_values(["series", "level", "mode", "x", "run_id"], kind="stable").reset_index(drop=True)


def unit(level: float) -> str:
    """What a leg's value is at this level."""
    return "latency, s" if level == 1 else "requests/s"


def measured_last(data: pd.DataFrame) -> str:
    """The series of the newest run; run ids begin with their time."""
    return str(data.sort_values(["run_id", "series"], kind="stable")["series"].iloc[-1])


def moves(data: pd.DataFrame) -> pd.DataFrame:
    """A row per series, level and mode of `prepare`'s frame: panel, commits, first and last (req/s; seconds at level 1), change
    (last / first - 1), step (last / the commit before it - 1).

    A commit counts with its newest run; change and step are NaN where there is a single one.
    """
    placed = data.drop_duplicates(["series", "level", "mode", "x"], keep="last")
    values = placed.groupby(LEG, sort=False)["value"]
    out = values.agg(commits="size", first="first", last="last").reset_index()
    before = values.nth(-2)
    before.index = pd.MultiIndex.from_frame(placed.loc[before.index, LEG])
    previous = before.reindex(pd.MultiIndex.from_frame(out[LEG])).to_numpy()
    moved = out["commits"] > 1
    return out.assign(change=(out["last"] / out["first"] - 1).where(moved), step=(out["last"] / previous - 1).where(moved))


def finding(frame: pd.DataFrame) -> str:
    """The largest moves first: of each level where there is one series, of each series at its level that moved most otherwise;
    how far all the others moved; and the largest step at a newest commit.
    """
    data = prepare(frame)
    if data.empty:
        return NOTHING
    moved, several = moves(data), data["series"].nunique() > 1
    words = [_one_at_a_time(data)] if data["series"].nunique() > FEW else []
    if moved["change"].isna().all():
        return " ".join([*words, *_first_figures(data, moved)])
    size = moved["change"].abs()
    most = size.groupby([moved["series"], moved["level"]]).max().dropna().sort_values(ascending=False, kind="stable")
    if several:
        most = most[~most.index.get_level_values("series").duplicated()]
    spoken = SPOKEN - len(words)
    words += [_move(moved, series, level, several) for series, level in most.index[:spoken]]
    rest = most.iloc[spoken:]
    if len(rest):
        what = "series" if several else f"level{'' if len(rest) == 1 else 's'}"
        words.append(f"The other {f'{len(rest)} ' if len(rest) > 1 else ''}{what} moved by at most {rest.max():.1%}.")
    return " ".join([*words, *_single(moved, several), _step(moved, several)])


def _one_at_a_time(data: pd.DataFrame) -> str:
    return f"{data['series'].nunique()} series, drawn one at a time, first the one measured last: {measured_last(data)}."


def _move(moved: pd.DataFrame, series: str, level: float, several: bool) -> str:
    legs = moved[(moved["series"] == series) & (moved["level"] == level)].sort_values("mode", ascending=False)
    changes = ", ".join(f"{row['mode']} {row['change']:+.1%}" for row in frames.rows(legs[legs["change"].notna()]))
    whose = f"{series}: most at " if several else ""
    return f"{whose}{_quantity(legs)}: {changes} since the first of {frames.count(int(legs['commits'].max()), 'commit')}."


def _quantity(legs: pd.DataFrame) -> str:
    return f"{legs['panel'].iloc[0]}, {'latency' if legs['level'].iloc[0] == 1 else 'throughput'}"


def _single(moved: pd.DataFrame, several: bool) -> list[str]:
    """What has nothing to be compared with."""
    column, noun = ("series", "series") if several else ("panel", "level")
    alone = moved[column].nunique() - moved.loc[moved["change"].notna(), column].nunique()
    plural = "s" if alone > 1 and not several else ""
    return [f"{alone} {noun}{plural} with one commit so far."] if alone else []


def _step(moved: pd.DataFrame, several: bool) -> str:
    row = moved.iloc[int(moved["step"].abs().argmax())]
    whose = f"{row['series']}, " if several else ""
    return f"Largest step at {'a' if several else 'the'} newest commit: {whose}{row['panel']}, {row['mode']} {row['step']:+.1%}."


def _first_figures(data: pd.DataFrame, moved: pd.DataFrame) -> list[str]:
    """No leg has two commits: what the series measured last came to."""
    series = measured_last(data)
    here = moved[moved["series"] == series]
    several = moved["series"].nunique() > 1
    words = ["One commit so far." if data["x"].nunique() == 1 else "One commit of each series so far."]
    for _, legs in list(here.groupby("level"))[:SPOKEN]:
        values = ", ".join(f"{row['mode']} {frames.figure(row['last'])}" for row in frames.rows(legs.iloc[::-1]))
        whose = f"{series}, " if several else ""
        words.append(f"{whose}{_quantity(legs)}: {values} {'s' if legs['level'].iloc[0] == 1 else 'requests/s'}.")
    more = moved.groupby(["series", "level"]).ngroups - (len(words) - 1)
    return words + ([f"And {frames.count(more, 'more level')}{' of all series' if several else ''}."] if more else [])
