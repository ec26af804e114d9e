# Every target calls a script or CMake. On a fresh machine, `make demo` and
# `make test` are enough.

BUILD ?= build
JOBS ?= $(shell nproc)
export TANDEM_BUILD := $(abspath $(BUILD))

.PHONY: help setup setup-cuda build test sanitizers faults mutants fuzz demo demo-pipeline demo-hosts demo-cuda verify bench bench-search bench-cpu bench-compile bench-overlap bench-pipeline bench-simulate bench-papers bench-overhead bench-networks bench-oases bench-checkpoint bench-recompute bench-host-memory bench-startup bench-waiting coverage conformance zoo wheel wheel-smoke docs check-gcc format lint clean

help: ## List all targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

setup: ## Install all dependencies: apt packages, .venv (repeatable)
	@scripts/setup

setup-cuda: setup ## Check CUDA declarations against NVIDIA's headers (downloads 600 MB once)
	@scripts/setup-cuda

build: setup ## Build the tools into build/bin and the Python package into .venv
	@scripts/build $(BUILD) $(JOBS)

test: build ## Run lint and all tests: lit, gtest, pytest
	@scripts/test $(BUILD) $(JOBS)

sanitizers: setup ## Run the runtime's tests under ASan with UBSan, and under TSan
	@scripts/sanitizers $(JOBS)

faults: setup ## Inject faults into jobs: killed processes, cut links (COUNT=100 SEED=0)
	@scripts/build $(BUILD) $(JOBS) --target tandem
	@scripts/faults --count $(or $(COUNT),100) --seed $(or $(SEED),0)

mutants: setup ## Mutation tests: plant mistakes, print the tests that catch them (hours)
	@scripts/mutants --jobs $(JOBS)

demo: setup ## Show hidden communication, and train a mixture-of-experts BERT on four ranks
	@scripts/build $(BUILD) $(JOBS) --target tandem
	@scripts/demo

demo-pipeline: setup ## A GPT as a pipeline of four ranks, beside PyTorch, and the timeline of each point
	@scripts/build $(BUILD) $(JOBS) --target tandem
	@scripts/demo-pipeline

demo-hosts: setup ## The demo's BERT on two emulated hosts with torchrun (root; apt: iproute2, iperf3)
	@scripts/build $(BUILD) $(JOBS) --target testbed-tools
	@scripts/demo-hosts

demo-cuda: setup ## The demo's BERT on the CUDA device: a GPU, else the emulated one (minutes)
	@scripts/build $(BUILD) $(JOBS) --target cuda-tools
	@scripts/demo-cuda

verify: build ## Every case of every test, and all combinations of models, plans, searches, ranks, microbatches (DEVICE=cuda)
	$(if $(DEVICE),,@.venv/bin/python -m pytest -q -n $(JOBS) --every-case python-bindings/tests)
	@scripts/verify-matrix $(if $(DEVICE),--device $(DEVICE))
	@scripts/verify-matrix --search $(if $(DEVICE),--device $(DEVICE))
	@scripts/verify-matrix --pipelines $(if $(DEVICE),--device $(DEVICE))

fuzz: setup ## Fuzz every reader of files for a minute (SECONDS=60)
	@scripts/fuzz $(JOBS) $(or $(SECONDS),60)

bench-cpu: build ## Speed of one core against its roofline and PyTorch, and of every product (15 minutes; CHECK=1)
	@cmake --build $(BUILD) --target roofline -- --quiet
	@.venv/bin/python benchmarks/cpu.py $(if $(CHECK),--check) --json $(BUILD)/bench/cpu.json; failed=$$?; \
	.venv/bin/python benchmarks/products.py $(if $(CHECK),--check) --from $(BUILD)/bench/cpu.json --json $(BUILD)/bench/cpu.json && exit $$failed

bench-search: build ## Benchmarks of the search: findings, times, gaps, optima (PROBLEMS=folder)
	@scripts/bench-search $(BUILD) $(PROBLEMS)

bench-compile: build ## Compile time per stage against the number of layers
	@.venv/bin/python benchmarks/compile.py --check --json $(BUILD)/bench/compile.json

bench-overlap: setup ## Hidden communication on emulated hosts against DDP, FSDP2, DTensor (root; 20 minutes; CHECK=1)
	@scripts/build $(BUILD) $(JOBS) --target testbed-tools
	@scripts/bench-overlap $(if $(CHECK),--check) --json $(BUILD)/bench/overlap.json

bench-pipeline: setup ## Pipelines on four emulated hosts: predictions, torch.distributed.pipelining, searched layouts (root; 20 minutes; CHECK=1)
	@scripts/build $(BUILD) $(JOBS) --target testbed-tools
	@.venv/bin/python benchmarks/pipeline.py $(if $(CHECK),--check) --json $(BUILD)/bench/pipeline.json; failed=$$?; \
	  .venv/bin/python benchmarks/planned.py $(if $(CHECK),--check) --json $(BUILD)/bench/planned.json && exit $$failed

bench-simulate: build ## GPT-3 on 10,000 simulated devices, agreement of predictions, report pages (chromium; CHECK=1)
	@.venv/bin/python benchmarks/simulate.py $(if $(CHECK),--check) --json $(BUILD)/bench/simulate.json

bench-papers: build ## Published speed-ups of HiDup, Oases, Fold3D, AMP and AxoNN, simulated (CHECK=1)
	@.venv/bin/python benchmarks/papers.py $(if $(CHECK),--check) --json $(BUILD)/bench/papers.json

bench-oases: setup ## Oases beside its paper, and layers in checkpoints on two emulated hosts (root; 10 minutes; CHECK=1)
	@scripts/build $(BUILD) $(JOBS) --target testbed-tools
	@.venv/bin/python benchmarks/oases.py $(if $(CHECK),--check) --json $(BUILD)/bench/oases.json; failed=$$?; \
	scripts/bench-overlap --only recomputed $(if $(CHECK),--check) --json $(BUILD)/bench/oases.json && exit $$failed

bench-overhead: build ## Overhead of the runtime: a step of a tiny model
	@.venv/bin/python benchmarks/overhead.py --check --json $(BUILD)/bench/overhead.json

bench-checkpoint: build ## Time to save a checkpoint of 1 GB against dd
	@.venv/bin/python benchmarks/checkpoint.py --check --json $(BUILD)/bench/checkpoint.json

bench-recompute: build ## Peak memory against what is made again, beside PyTorch (10 minutes; CHECK=1; AGAIN=1 measures PyTorch)
	@.venv/bin/python benchmarks/recompute.py $(if $(AGAIN),--measure-pytorch) $(if $(CHECK),--check) --json $(BUILD)/bench/recompute.json --figures $(BUILD)/bench

bench-host-memory: build ## Values on the host beside those held and those made again, predicted (CHECK=1)
	@.venv/bin/python benchmarks/host_memory.py $(if $(CHECK),--check) --json $(BUILD)/bench/host-memory.json

coverage: build ## Train models of transformers and layers of torch.nn against eager (CHECK=1 AGAIN=1)
	@.venv/bin/python benchmarks/coverage.py --jobs $(JOBS) $(if $(AGAIN),--again) $(if $(CHECK),--check)

conformance: build ## Run PyTorch's samples of operators, modules, optimizers against eager (CHECK=1 AGAIN=1 FAILED=1)
	@.venv/bin/python benchmarks/conformance.py --jobs $(JOBS) $(if $(AGAIN),--again) $(if $(FAILED),--failed) $(if $(CHECK),--check)

zoo: build ## Train models of public zoos against eager, in their own environment (CHECK=1 AGAIN=1)
	@scripts/zoo --jobs $(JOBS) $(if $(AGAIN),--again) $(if $(CHECK),--check)

bench-networks: build ## Image networks on one core against eager, channels_last, torch.compile (CHECK=1)
	@.venv/bin/python benchmarks/networks.py $(if $(CHECK),--check) --json $(BUILD)/bench/networks.json

bench-waiting: build ## Time to first step by stage, for models of zoos (RUNS=1)
	@scripts/zoo benchmarks/waiting.py --runs $(or $(RUNS),1) --json $(BUILD)/bench/waiting.json

bench-startup: build ## Time to first step of GPT-2 small, cold and warm
	@.venv/bin/python benchmarks/startup.py --check --json $(BUILD)/bench/startup.json

bench: bench-cpu bench-search bench-compile bench-overhead bench-checkpoint bench-recompute bench-startup ## Run all benchmarks that need no root (JSON in build/bench)

wheel: setup ## Build a manylinux_2_36 wheel with its libraries in build/wheel
	@scripts/build $(BUILD) $(JOBS) --target wheel-tools
	@scripts/wheel $(BUILD)

wheel-smoke: wheel ## Test the wheel in a bare Debian with Python and torch (root; apt: debootstrap)
	@scripts/wheel-smoke $(BUILD)

docs: build ## Generate the reference pages (dialects, passes, options) and the figures
	@scripts/docs $(BUILD)

check-gcc: setup ## Build with g++-12 and warnings as errors
	@CC=gcc-12 CXX=g++-12 scripts/build build-gcc $(JOBS) -DCMAKE_COMPILE_WARNING_AS_ERROR=ON

format: ## Format C++ and Python
	@git ls-files '*.cpp' '*.h' | xargs clang-format-22 -i
	@.venv/bin/ruff format python-bindings examples scripts benchmarks

lint: ## Check formats, include rules, Python style and the language of documents
	@scripts/lint

clean: ## Remove the build folder
	rm -rf $(BUILD)
