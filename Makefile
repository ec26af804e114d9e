# Thin: every target calls a script or CMake. `make demo` and `make test` are
# all that one types on a fresh machine.

BUILD ?= build
JOBS ?= $(shell nproc)
export TANDEM_BUILD := $(abspath $(BUILD))

.PHONY: help setup setup-cuda build test sanitizers faults mutants fuzz demo demo-hosts demo-cuda verify bench bench-search bench-cpu bench-compile bench-overlap bench-overhead bench-networks bench-checkpoint bench-startup bench-waiting coverage conformance zoo wheel wheel-smoke docs check-gcc format lint clean

help: ## Print this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: ## Install every dependency (apt packages, .venv); may be called twice
	@scripts/setup

setup-cuda: setup ## Compare the declarations of CUDA's functions with NVIDIA's headers (loads 600 MB once)
	@scripts/setup-cuda

build: setup ## Build the tools into build/bin and the Python package into .venv
	@scripts/build $(BUILD) $(JOBS)

test: build ## All tests: formats, include rules, lit, gtest, pytest
	@scripts/test $(BUILD) $(JOBS)

sanitizers: setup ## The runtime's suite under ASan with UBSan, and under TSan
	@scripts/sanitizers $(JOBS)

faults: setup ## Kill a hundred jobs of processes, stop them, cut their links; a table (COUNT=100 SEED=0)
	@scripts/build $(BUILD) $(JOBS) --target tandem
	@scripts/faults --count $(or $(COUNT),100) --seed $(or $(SEED),0)

mutants: setup ## Plant single mistakes; print which test catches each (hours; docs/testing.md)
	@scripts/mutants --jobs $(JOBS)

demo: setup ## Show what duplex hides, and train a mixture-of-experts BERT on four ranks beside PyTorch (builds no tests)
	@scripts/build $(BUILD) $(JOBS) --target tandem
	@scripts/demo

demo-hosts: setup ## Two emulated hosts train it with torchrun (root; apt: iproute2, iperf3)
	@scripts/build $(BUILD) $(JOBS) --target testbed-tools
	@scripts/demo-hosts

demo-cuda: setup ## Train it on the CUDA device: the GPU that is here, or the emulated one (minutes)
	@scripts/build $(BUILD) $(JOBS) --target cuda-tools
	@scripts/demo-cuda

verify: build ## The whole matrix of models, plans, searches, ranks and microbatches (DEVICE=cuda)
	@scripts/verify-matrix $(if $(DEVICE),--device $(DEVICE))
	@scripts/verify-matrix --search $(if $(DEVICE),--device $(DEVICE))

fuzz: setup ## Give every reader mutated files for a minute each (SECONDS=60)
	@scripts/fuzz $(JOBS) $(or $(SECONDS),60)

bench-cpu: build ## One core beside its roofline and PyTorch, and every product (15 minutes; CHECK=1)
	@cmake --build $(BUILD) --target roofline -- --quiet
	@.venv/bin/python benchmarks/cpu.py $(if $(CHECK),--check) --json $(BUILD)/bench/cpu.json; failed=$$?; \
	.venv/bin/python benchmarks/products.py $(if $(CHECK),--check) --from $(BUILD)/bench/cpu.json --json $(BUILD)/bench/cpu.json && exit $$failed

bench-search: build ## Tables of the search: findings, times, gaps, optima (PROBLEMS=folder); also build/bench/search.json
	@scripts/bench-search $(BUILD) $(PROBLEMS)

bench-compile: build ## Seconds of the compiler's stages against layers; also build/bench/compile.json
	@.venv/bin/python benchmarks/compile.py --check --json $(BUILD)/bench/compile.json

bench-overlap: setup ## Hidden communication on emulated hosts, beside DDP, FSDP2 and DTensor (root; 20 minutes; CHECK=1)
	@scripts/build $(BUILD) $(JOBS) --target testbed-tools
	@scripts/bench-overlap $(if $(CHECK),--check) --json $(BUILD)/bench/overlap.json

bench-overhead: build ## What a step of a tiny model takes, which is mostly the runtime
	@.venv/bin/python benchmarks/overhead.py --check --json $(BUILD)/bench/overhead.json

bench-checkpoint: build ## Saving 1 GB, beside dd on the same disk
	@.venv/bin/python benchmarks/checkpoint.py --check --json $(BUILD)/bench/checkpoint.json

coverage: build ## Which models of transformers and layers of torch.nn train as in eager (CHECK=1 AGAIN=1)
	@.venv/bin/python benchmarks/coverage.py --jobs $(JOBS) $(if $(AGAIN),--again) $(if $(CHECK),--check)

conformance: build ## PyTorch's samples of operators, modules and optimizers beside eager (CHECK=1 AGAIN=1 FAILED=1)
	@.venv/bin/python benchmarks/conformance.py --jobs $(JOBS) $(if $(AGAIN),--again) $(if $(FAILED),--failed) $(if $(CHECK),--check)

zoo: build ## Which models of public zoos train as in eager, in an environment of their own (CHECK=1 AGAIN=1)
	@scripts/zoo --jobs $(JOBS) $(if $(AGAIN),--again) $(if $(CHECK),--check)

bench-networks: build ## Networks of images on one core, beside eager, channels_last and torch.compile (CHECK=1)
	@.venv/bin/python benchmarks/networks.py $(if $(CHECK),--check) --json $(BUILD)/bench/networks.json

bench-waiting: build ## Seconds before the first step by stage, of the models of zoos (RUNS=1)
	@scripts/zoo benchmarks/waiting.py --runs $(or $(RUNS),1) --json $(BUILD)/bench/waiting.json

bench-startup: build ## What one waits for before the first step: GPT-2 small, from nothing and again
	@.venv/bin/python benchmarks/startup.py --check --json $(BUILD)/bench/startup.json

bench: bench-cpu bench-search bench-compile bench-overhead bench-checkpoint bench-startup ## All benchmarks that need no root

wheel: setup ## A manylinux_2_36 wheel in build/wheel, with the libraries that it needs
	@scripts/build $(BUILD) $(JOBS) --target wheel-tools
	@scripts/wheel $(BUILD)

wheel-smoke: wheel ## Train with the wheel in a bare Debian that has Python and torch (root; apt: debootstrap)
	@scripts/wheel-smoke $(BUILD)

docs: build ## Reference documents of dialects and passes, from ODS
	@scripts/docs $(BUILD)

check-gcc: setup ## Build with g++-12, warnings as errors
	@CC=gcc-12 CXX=g++-12 scripts/build build-gcc $(JOBS) -DCMAKE_COMPILE_WARNING_AS_ERROR=ON

format: ## Format C++ and Python
	@git ls-files '*.cpp' '*.h' | xargs clang-format-22 -i
	@.venv/bin/ruff format python-bindings examples scripts benchmarks

lint: ## Check formats, include rules and Python style
	@scripts/lint

clean: ## Remove the build folder
	rm -rf $(BUILD)
