"""The charts, one question a file, and for notebooks a function each that takes a store: `dashboards.charts.trend(store)`.

`store` is a results folder, a store or a snapshot; `run_id` the newest run where it is left out.
"""

from pathlib import Path

from dashboards import changes, run_frames, theme
from dashboards.charts.latency_distribution import latency_distribution
from dashboards.charts.leg_throughput import leg_throughput
from dashboards.charts.level_scaling import level_scaling
from dashboards.charts.memory_limits import memory_limits
from dashboards.charts.night_canary import night_canary
from dashboards.charts.night_pairs import night_pairs
from dashboards.charts.night_telemetry import night_telemetry
from dashboards.charts.ratio_trend import ratio_trend
from dashboards.charts.request_latency import request_latency
from dashboards.charts.target_ratios import target_ratios
from dashboards.downsample import thin
from dashboards.run_view import UnknownRunError, read_run
from dashboards.series_names import named, series_names
from storage import queries

Store = Path | str


def targets(store: Store, run_id: str | None = None) -> theme.Drawn:
    """Does each level reach its target?"""
    return target_ratios(read_run(Path(store), _run(store, run_id)).ratios())


def trend(store: Store) -> theme.Drawn:
    """Is batching paying, and since when?"""
    history = changes.marked(queries.ratio_history(store), queries.change_points(store))
    return ratio_trend(named(thin(history).frame, series_names(Path(store))), queries.build_failures(store))


def legs(store: Store) -> theme.Drawn:
    """Which leg moved?"""
    return leg_throughput(named(run_frames.legs(Path(store)), series_names(Path(store))))


def scaling(store: Store, run_id: str | None = None) -> theme.Drawn:
    """How far does batching carry?"""
    return level_scaling(run_frames.scaling(Path(store), _run(store, run_id)))


def latency(store: Store, run_id: str | None = None) -> theme.Drawn:
    """Where does a request's time go?"""
    return request_latency(run_frames.latency(Path(store), _run(store, run_id)))


def distribution(store: Store, run_id: str | None = None) -> theme.Drawn:
    """How are the latencies spread?"""
    return latency_distribution(run_frames.distribution(Path(store), _run(store, run_id)))


def limits(store: Store, run_id: str | None = None) -> theme.Drawn:
    """How near is decoding to what the memory allows?"""
    return memory_limits(queries.bandwidth_fraction(store, _run(store, run_id)))


def pairs(store: Store, run_id: str | None = None) -> theme.Drawn:
    """Can this night be trusted?"""
    return night_pairs(queries.target_ratios(store, _run(store, run_id)))


def canary(store: Store, run_id: str | None = None) -> theme.Drawn:
    """Did the machine agree with itself?"""
    return night_canary(queries.canary_pairs(store, _run(store, run_id)))


def telemetry(store: Store, run_id: str | None = None) -> theme.Drawn:
    """What was the machine doing?"""
    return night_telemetry(run_frames.telemetry(Path(store), _run(store, run_id)))


def _run(store: Store, run_id: str | None) -> str:
    """The run asked for, or the newest. Raises UnknownRunError."""
    if run_id is None:
        return run_frames.newest_run(Path(store)) or ""
    known = list(queries.runs(store)["run_id"])
    if run_id not in known:
        raise UnknownRunError(f"{store}: no run {run_id!r}; the latest there: {', '.join(known[:5]) or 'none'}")
    return run_id
