"""What the scheduler promises, measured: parity, idling, engines in turn, and a short request beside a long prefill.

    python tests/bench/bench_scheduler.py [--only parity,idle,build_order,first_token] [--checkpoint synthetic:small] [--tp 4,1]

On a quiet machine: parity says what is equal whatever else runs, the others are times. `first_token` sends a request of 16 tokens
while a prompt of 2,048 prefills, in this process, on the tree's own engine (`make native`). The other parts are processes
on the build of this tree. Exit code 1 where a part fails.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from flows.build import build_engine, open_build, source_of  # noqa: E402  # the tree's own, wherever this is started
from flows.settings import harness_environment, load_host  # noqa: E402

PARTS = ("parity", "idle", "build_order", "first_token")
SPEC = {"workload": "bench", "slots": 16, "context": 48, "prompt_tokens": 16, "new_tokens": 32, "warmup": 1, "runs": 3, "seed": 0}
PARITY = {"level": 16, "new_tokens": 16, "extra": {"levels": [1, 2, 3, 4, 5, 6, 7, 8, 16], "mixed_lengths": True}}
IDLE = {"level": 8, "extra": {"window_s": 10.0}}
ORDERS = (["serial", "batch"] * 3, ["batch", "serial"] * 3, ["batch:8", "batch:2", "batch:8", "batch:2"])
LONG, SHORT, TIMES = 2048, 16, 7


def main() -> int:
    """Run the parts; returns the exit code."""
    parser = argparse.ArgumentParser(prog="bench_scheduler")
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--checkpoint", default="synthetic:small")
    parser.add_argument("--tp", default="4,1")
    given = parser.parse_args()
    failed = 0
    for tp in (int(part) for part in given.tp.split(",")):
        base = {"checkpoint": given.checkpoint, "tp": tp}
        for part in given.only.split(","):
            failed += PARTS_OF[part](base)
    return 1 if failed else 0


def parity(base: dict[str, Any]) -> int:
    """Levels 1 to 8 and 16."""
    return _failed(measure("parity", base | {"mode": "batch"} | PARITY))


def idle(base: dict[str, Any]) -> int:
    """Both modes."""
    return sum(_failed(measure("idle", base | {"mode": mode} | IDLE)) for mode in ("serial", "batch"))


def build_order(base: dict[str, Any]) -> int:
    """Each order of modes, without and with a pause, and slot counts in turn."""
    failed = 0
    for sequence in ORDERS:
        for pause_s in (0.0, 2.0):
            extra = {"sequence": sequence, "pause_s": pause_s}
            record = measure("build_order", base | {"mode": "batch", "level": 1, "runs": 5, "extra": extra})
            failed += _failed(record)
            for row in record["details"].get("engines", []):
                clocks = [round(row[when].get("cpu_mhz", 0)) for when in ("before", "loaded")]
                counts = [[row[when].get(name) for when in ("loaded", "closed")] for name in ("own_threads", "own_children")]
                told = f"wall {row['wall_s']:.4f} s, {row['ratio_to_first']:.4f} of the first, MHz {clocks}"
                print(f"    {row['position']} {row['mode']:6} {row['slots']:2} slots: {told}, threads and children {counts}")
    return failed


def first_token(base: dict[str, Any]) -> int:
    """Seconds to the first token of a short request, alone and beside a long prefill."""
    from engine import Session, SessionOptions

    options = SessionOptions(mode="batch", tp=base["tp"], slots=4, context=LONG + 64)
    alone, beside, long = [], [], []
    with Session.open(base["checkpoint"], options) as session:
        prompt = [(7 * n) % session.facts.vocab_size for n in range(LONG)]
        session.submit(prompt[:SHORT], 4).result()
        for _ in range(TIMES):
            alone.append(_ttft(session.submit(prompt[:SHORT], 4)))
            whole = session.submit(prompt, 4)
            while not session.stats().running:
                time.sleep(0.0005)
            beside.append(_ttft(session.submit(prompt[1 : SHORT + 1], 4)))
            long.append(_ttft(whole))
    for name, values in (("short, alone", alone), ("short, beside the prefill", beside), (f"the prompt of {LONG}", long)):
        print(f"tp {base['tp']} first token of {name}: median {statistics.median(values):.4f} s, worst {max(values):.4f} s")
    return 0


def _ttft(handle: Any) -> float:
    generation = handle.result()
    return float(generation.token_times_s[0] - generation.submitted_s)


def measure(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    """One measuring process; prints and returns its record."""
    host = load_host()
    with tempfile.TemporaryDirectory() as folder:
        request, result = Path(folder) / "request.json", Path(folder) / "result.json"
        if host.build:
            build, source = open_build(host.build), source_of(open_build(host.build))
        else:
            build, source = build_engine(ROOT, host, Path(folder) / "build.log")
        body = {"request_version": 1, "run_id": "bench", "measurement": kind, "spec": SPEC | {"kind": kind} | spec}
        body |= {"build": str(build.folder), "source": source.model_dump(), "cache": str(host.cache)}
        request.write_text(json.dumps(body), encoding="utf-8")
        command = [sys.executable, "-P", "-m", f"flows.measurements.{kind}", str(request), str(result)]
        ended = subprocess.run(command, env=harness_environment(), capture_output=True, text=True, check=False)
        if not result.exists():
            sys.exit(f"{kind}: no record, exit code {ended.returncode}\n{ended.stdout}{ended.stderr}")
        record: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    values = ", ".join(f"{name} {value:.6g}" for name, value in sorted(record["values"].items()))
    reasons = [*record["invalid_because"], *([record["failure"]["message"]] if record["failure"] else [])]
    asked = f"tp {spec['tp']} {kind} {spec['mode']} x{spec['level']} {spec.get('extra', '')}"
    print(f"{asked}: {record['status']} {'; '.join(reasons)}\n  {values}")
    return record


def _failed(record: dict[str, Any]) -> int:
    return int(record["status"] != "ok")


PARTS_OF = {"parity": parity, "idle": idle, "build_order": build_order, "first_token": first_token}

if __name__ == "__main__":
    sys.exit(main())
