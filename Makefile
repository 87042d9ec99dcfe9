# The one list of commands; CI and the hooks call the same ones. `make help` prints it.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
ARGS ?=
PYTEST_ARGS ?=
CXX_FILES = $(shell git ls-files 'native/*.h' 'native/*.cc' 'native/*.cu' 'native/*.cuh')

.DEFAULT_GOAL := help
.PHONY: help install dev validate native test test-slow lint format stubs tidy bench bench-products pictures cuda tsan asan \
  tsan-short asan-short kernels aarch64 hooks clean

help: ## Print this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):[^#]*## (.*)/  make \1\t\2/' | expand -t 20

$(VENV)/bin/python:
	$(PYTHON) -m venv "$(VENV)"

# The C++ part is built by the product itself (flows/build.py, cached by content), so the editable install skips CMake.
$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install -q -c constraints.txt scikit-build-core pybind11 cmake ninja
	$(PIP) install -q -c constraints.txt --no-build-isolation -C wheel.cmake=false -e .
	@touch "$@"

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) install -q -c constraints.txt --no-build-isolation -C wheel.cmake=false -e '.[dev]'
	@touch "$@"

install: $(VENV)/.installed ## Create the virtual environment with the pinned packages
dev: $(VENV)/.installed-dev ## ... and what tests and linters need

# Three rounds a process in place of the report's five: within the same minutes more pairs of processes (docs/verdicts.md).
validate: install ## Build the engine, measure serial against batched decode, say what was found (options: ARGS="--levels 2,4")
	@"$(BIN)/paceline" validate --runs 3 --looks 4,16 --budget-minutes 4.4 $(ARGS)

native: dev ## Build the engine of this tree and put its module beside engine/*.py
	@folder="$$("$(BIN)/paceline" build --print-folder)" && cp -f "$$folder"/engine/_native*.so engine/ && echo "engine from $$folder"

test: native ## Run the tests
	"$(BIN)/python" -m pytest $(PYTEST_ARGS)

test-slow: native ## Run the wide sweeps too
	"$(BIN)/python" -m pytest -m "slow or not slow" $(PYTEST_ARGS)

lint: dev ## Formatting, lint rules, types, import rules
	"$(BIN)/ruff" check .
	"$(BIN)/ruff" format --check .
	"$(BIN)/mypy"
	"$(BIN)/lint-imports"
	"$(BIN)/clang-format" --dry-run --Werror $(CXX_FILES)

stubs: native ## Hold engine/_native.pyi against the compiled module
	"$(BIN)/python" -m mypy.stubtest engine._native --ignore-disjoint-bases

tidy: dev ## clang-tidy on the host code
	"$(BIN)/cmake" -S native -B build/tidy -G Ninja -DCMAKE_EXPORT_COMPILE_COMMANDS=ON \
	  -Dpybind11_DIR="$$("$(BIN)/python" -m pybind11 --cmakedir)" -DPython_EXECUTABLE="$(abspath $(BIN))/python"
	"$(BIN)/python" "$(VENV)/bin/run-clang-tidy" -quiet -clang-tidy-binary "$(BIN)/clang-tidy" -p build/tidy 'native/(parallel|model|runtime)/.*\.cc'

cuda: dev ## Compile the CUDA backend and its checks for every architecture (needs nvcc, no GPU)
	"$(BIN)/cmake" -S native -B build/cuda -G Ninja -DPACELINE_CUDA=ON -DPACELINE_PYTHON=OFF -DPACELINE_WERROR=ON
	"$(BIN)/cmake" --build build/cuda --target paceline_ops_cuda paceline_cuda_test

format: dev ## Rewrite files to the house's format
	"$(BIN)/ruff" check --fix .
	"$(BIN)/ruff" format .
	"$(BIN)/clang-format" -i $(CXX_FILES)

bench: native ## Decode steps and prefills against this machine's limits and torch (options: ARGS="synthetic:small-fp8 --tp 1")
	"$(BIN)/python" tests/bench/bench_decode.py $(ARGS)

bench-products: native ## Each matrix product alone against the same limits (options: ARGS="qwen3-0.6b --widths 1,8")
	"$(BIN)/python" tests/bench/bench_products.py $(ARGS)

pictures: dev ## Draw the README's picture from a results folder (RESULTS=results) with headless Chromium
	"$(BIN)/python" tests/browser/take_pictures.py "$(or $(RESULTS),results)"

tsan asan tsan-short asan-short: dev ## Run the native stress program under ThreadSanitizer / AddressSanitizer + UBSan; -short: portable kernels, TP 2
	cd native && "$(abspath $(BIN))/cmake" --preset $@ && "$(abspath $(BIN))/cmake" --build --preset $@ --target check

kernels: dev ## Check the kernels of every path this processor runs against double precision, without Python
	cd native && "$(abspath $(BIN))/cmake" --preset $@ && "$(abspath $(BIN))/cmake" --build --preset $@

aarch64: dev ## Cross-build the portable kernels and run their checks under qemu-user (needs g++-aarch64-linux-gnu, qemu-user)
	@for tool in aarch64-linux-gnu-g++ qemu-aarch64; do command -v $$tool >/dev/null || \
	  { echo "make aarch64: no $$tool here: apt-get install g++-aarch64-linux-gnu qemu-user" >&2; exit 2; }; done
	cd native && "$(abspath $(BIN))/cmake" --preset $@ && "$(abspath $(BIN))/cmake" --build --preset $@

hooks: dev ## Install the pre-commit hooks, which call the commands above
	"$(BIN)/pre-commit" install

clean: ## Remove what was built here (the cache of builds and checkpoints stays)
	rm -rf build engine/_native*.so .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
