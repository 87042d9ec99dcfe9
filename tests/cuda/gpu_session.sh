#!/usr/bin/env bash
# Everything that needs a GPU, stage by stage: tests/cuda/gpu_session.sh STAGE... with results in $OUT (default: build/gpu).
# A stage that fails or runs out of its time does not stop the next; the last lines say how each ended.
#
#   kernels    build the check program, hold every operation against the CPU backend
#   speed      the products and steps of the 27B shape
#   sanitize   compute-sanitizer over the checks, quick sizes
#   turing     the checks on code that was compiled for compute capability 7.5 alone
#   install    unpack the wheels of WHEELS (default: .whl) where there are any, build the engine with the CUDA backend
#   wheel      pip install of the whole package with the CUDA backend
#   oracle     CUDA logits against our float32 reference and, where it is there, transformers
#   parity     the CPU against CUDA; serial against batch, bit by bit
#   fill27b    one session of the 27B shape: made on the device, asked for eight requests
#   suite27b   the plan of the 27B shape: PLAN (default: made here), BUDGET minutes (default 8); PAIRS of processes (default 5)
#
# oracle, parity, fill27b and suite27b need install. Of a copied tree git cannot tell the commit: make the PLAN where it can.
set -u
cd "$(dirname "$0")/../.." || exit 2
export OUT=${OUT:-$PWD/build/gpu}
export JOBS=${JOBS:-$(nproc)} PYTHON=${PYTHON:-python3} WHEELS=${WHEELS:-.whl}
export SITE=$PWD/build/gpu-site ENGINE=$PWD/build/gpu-engine
export PYTHONPATH=$SITE:$PWD PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
mkdir -p "$OUT"
summary=()

run() {  # run NAME SECONDS COMMAND...: output to $OUT/NAME.log, its end to the screen
  local name=$1 seconds=$2 start=$SECONDS
  shift 2
  echo "=== $name"
  timeout --kill-after=10 "$seconds" "$@" >"$OUT/$name.log" 2>&1
  local status=$?
  tail -n "${LINES_SHOWN:-40}" "$OUT/$name.log"
  summary+=("$(printf '%-20s %s in %d s' "$name" "$([ $status -eq 0 ] && echo passed || echo "FAILED ($status)")" $((SECONDS - start)))")
  return $status
}

build_checks() {  # build_checks FOLDER ARCHITECTURES
  cmake -S native -B "$1" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPACELINE_CUDA=ON -DPACELINE_PYTHON=OFF \
    -DPACELINE_CUDA_ARCHITECTURES="$2" && cmake --build "$1" --target paceline_cuda_test -j "$JOBS"
}

install_engine() {
  if compgen -G "$WHEELS/*.whl" >/dev/null; then
    "$PYTHON" -m pip install -q --no-index --no-deps --no-compile --upgrade --target "$SITE" "$WHEELS"/*.whl || return
  fi
  PACELINE_CUDA=$NATIVE-real PACELINE_CACHE=$PWD/build/gpu-cache "$PYTHON" - <<'PY'
import os
from pathlib import Path
from flows.build import build_engine
from flows.settings import load_host
from flows.source import find_repo

host = load_host()
build, source = build_engine(find_repo(host.repo), host, Path(os.environ["OUT"], "engine-build.log"))
link = Path(os.environ["ENGINE"])
link.unlink(missing_ok=True)
link.symlink_to(build.folder)
print(build.folder, build.info["compiler"], sep="\n")
PY
}

install_wheel() {
  "$PYTHON" -m pip install --no-deps --no-build-isolation --no-index --target build/gpu-wheel -C cmake.define.PACELINE_CUDA=ON \
    -C cmake.define.PACELINE_CUDA_ARCHITECTURES="$NATIVE-real" . &&
    cd / && PYTHONPATH=$OLDPWD/build/gpu-wheel:$SITE "$PYTHON" -c '
import engine, engine.binding as b
print(engine.__file__, b.build_info()["backends"], b.native().devices())
assert "cuda" in b.build_info()["backends"] and b.native().devices()'
}

oracle() {
  local status=0 checkpoint prompts
  for checkpoint in tiny tiny-hybrid tiny-fp8 small small-fp8 small-dense; do
    prompts=1,16,97
    # Of one token, this model amplifies the rounding of activations beyond the tolerance, on any device.
    [ $checkpoint = tiny-hybrid ] && prompts=16,97
    "$PYTHON" -P -m flows.measurements.check --build "$ENGINE" --checkpoint "synthetic:$checkpoint" --devices cuda:0 \
      --prompts "$prompts" --cache build/gpu-cache 2>/dev/null || status=1
  done
  if "$PYTHON" -c 'import transformers' 2>/dev/null; then
    PYTHONPATH=$ENGINE:$PYTHONPATH "$PYTHON" -X faulthandler tests/cuda/oracle.py || status=1
  else
    echo "transformers is not here: our own reference alone"
  fi
  return $status
}

parity() { PYTHONPATH=$ENGINE:$PYTHONPATH "$PYTHON" -X faulthandler tests/cuda/parity.py; }

fill27b() {
  PYTHONPATH=$ENGINE:$PYTHONPATH "$PYTHON" -P -X faulthandler - <<'PY'
import time
import numpy as np
from engine import Session, SessionOptions

with Session.open("synthetic:qwen3.5-27b-fp8", SessionOptions(mode="batch", devices="cuda:0")) as session:
    print(session.facts, {name: f"{size / 1e9:.2f} GB" for name, size in session.memory().items()}, sep="\n")
    draw = np.random.default_rng(1)
    prompts = [draw.integers(0, session.facts.vocab_size, 16).tolist() for _ in range(8)]
    probe = session.generate(prompts[:1], 1, keep_logits=True)[0].logits
    assert np.isfinite(probe).all()
    print(f"logits: deviation {probe.std():.3f}, largest {probe.max():.3f}")
    for count in (1, 2, 4, 8):
        walls = []
        for _ in range(4):
            begin = time.perf_counter()
            results = session.generate(prompts[:count], 32)
            walls.append(time.perf_counter() - begin)
        wall = sorted(walls[1:])[1]
        print(f"{count} requests of 16+32: {wall * 1e3:.1f} ms, {count * 32 / wall:.1f} tok/s; first: {results[0].tokens[:8]}")
PY
}

suite27b() {
  local plan=${PLAN:-$OUT/plan.json}
  [ -f "$plan" ] || "$PYTHON" -m flows.cli plan --checkpoint synthetic:qwen3.5-27b-fp8 --devices cuda:0 --tp 1 --levels 2,4,8 \
    --pairs "${PAIRS:-5}" --out "$plan" || return
  "$PYTHON" -m flows.measurements.suite "$plan" "$OUT/run27b" --build "$ENGINE" --budget-minutes "${BUDGET:-8}" \
    --deadline-minutes 3
  local status=$?
  rm -rf "$OUT/run27b"  # its archive stays
  return $status
}
export -f build_checks install_engine install_wheel oracle parity fill27b suite27b

NATIVE=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 | tr -d .)
case "$NATIVE" in 90) NATIVE=90a ;; "") NATIVE=90a ;; esac
export NATIVE
CHECKS=build/cuda-checks

checks() { [ -x "$CHECKS/ops/cuda/paceline_cuda_test" ] || run build-checks 240 bash -c "build_checks $CHECKS $NATIVE-real"; }

for stage in "${@:-kernels}"; do
  case $stage in
    kernels) checks && run kernels 120 "$CHECKS/ops/cuda/paceline_cuda_test" check ;;
    speed) checks && run speed 240 "$CHECKS/ops/cuda/paceline_cuda_test" speed ;;
    sanitize)
      checks
      for tool in memcheck racecheck; do
        run "sanitize-$tool" 180 compute-sanitizer --tool "$tool" --error-exitcode 9 "$CHECKS/ops/cuda/paceline_cuda_test" quick
      done
      ;;
    turing)
      run build-turing 240 bash -c "build_checks build/cuda-turing 75-virtual" &&
        run turing 180 build/cuda-turing/ops/cuda/paceline_cuda_test quick
      ;;
    install) run install 240 bash -c install_engine ;;
    wheel) run wheel 240 bash -c install_wheel ;;
    oracle) run oracle 240 bash -c oracle ;;
    parity) run parity 240 bash -c parity ;;
    fill27b) run fill27b 120 bash -c fill27b ;;
    suite27b) run suite27b $((${BUDGET:-8} * 60 + 60)) bash -c suite27b ;;
    *) sed -n '5,15p' "$0" >&2; echo "stage \"$stage\" is unknown" >&2; exit 2 ;;
  esac
done

echo "=== summary"
printf '%s\n' "${summary[@]}" | tee "$OUT/summary.txt"
! grep -q FAILED "$OUT/summary.txt"
