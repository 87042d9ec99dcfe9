#!/usr/bin/env bash
# Everything that needs a GPU, stage by stage: tests/cuda/gpu_session.sh STAGE... with results in $OUT (default: build/gpu).
# A stage that fails or runs out of its time does not stop the next; the last lines say how each ended.
#
#   kernels    build the check program, hold every operation against the CPU backend
#   speed      the products and steps of the 27B shape
#   sanitize   compute-sanitizer over the checks, quick sizes
#   turing     the checks on code that was compiled for compute capability 7.5 alone
set -u
cd "$(dirname "$0")/../.." || exit 2
OUT=${OUT:-$PWD/build/gpu}
JOBS=${JOBS:-$(nproc)}
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
export -f build_checks
export JOBS

NATIVE=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 | tr -d .)
case "$NATIVE" in 90) NATIVE=90a ;; "") NATIVE=90a ;; esac
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
    *) echo "stage \"$stage\" is unknown: kernels, speed, sanitize, turing" >&2; exit 2 ;;
  esac
done

echo "=== summary"
printf '%s\n' "${summary[@]}" | tee "$OUT/summary.txt"
! grep -q FAILED "$OUT/summary.txt"
