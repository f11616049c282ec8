# What people run: `make demo`, `make test`. `make help` lists the rest.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory

# Tools that scripts/setup installed come first; it installs only what the system lacks or has too old.
export PATH := $(CURDIR)/.tools/go/bin:$(HOME)/.cargo/bin:$(PATH)
# One flag set for everything that contains Kubernetes: with another one Go would build all of it once more.
export CGO_ENABLED := 1

KUBE_VERSION := $(shell sed -n 's|^\tk8s.io/kubernetes \(v[0-9.]*\)$$|\1|p' go-shim/go.mod)
KUBE_MINOR   := $(word 2,$(subst ., ,$(KUBE_VERSION)))
VERSION_PKG  := k8s.io/component-base/version
GO_LDFLAGS   := -X $(VERSION_PKG).gitVersion=$(KUBE_VERSION) -X $(VERSION_PKG).gitMajor=1 -X $(VERSION_PKG).gitMinor=$(KUBE_MINOR) \
	-X k8s.io/client-go/pkg/version.gitVersion=$(KUBE_VERSION)

LIBRARY  := target/release/libmortise.a
LIB_HASH := go-shim/pkg/native/libhash_generated.go
VALGRIND ?= valgrind

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

.PHONY: setup
setup: ## install what is missing to build and test (apt-get, rustup, Go)
	@scripts/setup

# --- build ---------------------------------------------------------------------------------------------------------------

.PHONY: library
library: setup ## build the Rust static library
	cargo build --release --locked --package mortise
	@scripts/library-hash $(LIBRARY) $(LIB_HASH)

.PHONY: build
build: library ## build bin/kube-scheduler and bin/mortise-demo
	go -C go-shim build -ldflags '$(GO_LDFLAGS)' -o ../bin/ ./cmd/...

# --- run -----------------------------------------------------------------------------------------------------------------

# DATA= directory of the openb trace, TRACE= its pod list, NODES= and PODS= size of the generated cluster, SEED=
DEMO_FLAGS ?= $(if $(DATA),--data '$(DATA)') $(if $(TRACE),--trace '$(TRACE)') $(if $(LOAD),--load '$(LOAD)') \
	$(if $(NODES),--nodes '$(NODES)') $(if $(PODS),--pods '$(PODS)') $(if $(SEED),--seed '$(SEED)')

.PHONY: demo
demo: build ## schedule a GPU workload on simulated nodes, Mortise beside stock scoring
	bin/mortise-demo $(DEMO_FLAGS)

.PHONY: demo-preemption
demo-preemption: build ## an inference burst takes GPUs from batch: who is evicted, why, what is lost
	bin/mortise-demo preempt

# --- test ----------------------------------------------------------------------------------------------------------------

.PHONY: test
test: lint test-rust test-c test-python test-go ## everything a change is judged by

.PHONY: lint
lint: library ## formatting, clippy, vet; warnings are errors
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	@unformatted=$$(gofmt -l go-shim); test -z "$$unformatted" || { echo "gofmt -w is needed for:"; echo "$$unformatted"; exit 1; }
	go -C go-shim vet ./...

# Public traces and published figures, where they are at hand; without them the same tests run on generated ones.
export MORTISE_DATA ?= $(abspath $(wildcard ../shared/data))

.PHONY: test-rust
test-rust: setup ## unit, property and doc tests of the Rust crates
	cargo test --workspace --locked

.PHONY: test-c
test-c: library ## a C host of the library under valgrind
	$(MAKE) -C conformance/c check VALGRIND='$(VALGRIND)'

.PHONY: test-python
test-python: setup ## the checkpoint package for training jobs
	cd sdk/python && PYTHONPATH=src python3 -m unittest discover -s tests

.PHONY: test-go
test-go: library ## Go tests, the packages that hold concurrent state under the race detector too
	go -C go-shim test -ldflags '$(GO_LDFLAGS)' ./...
	go -C go-shim test -race ./pkg/...

.PHONY: bench
bench: setup ## benchmarks of the kernel, each beside its baseline
	cargo bench --workspace --locked

# Kubernetes' own scheduler benchmark on this profile and the stock one. PERF= a part of it, as Mortise/5000Nodes;
# PERF_FLAGS= more flags, as -perf-cpuprofile. Results, logs and profiles are written to target/perf.
PERF ?= .
PERF_FLAGS ?=
PERF_DIR := $(CURDIR)/target/perf

.PHONY: perf
perf: library ## scheduling rate beside the stock profile: 1,000 and 5,000 nodes
	@mkdir -p $(PERF_DIR)
	go -C go-shim test -c -ldflags '$(GO_LDFLAGS)' -o $(PERF_DIR)/perf.test ./test/perf
	@cd go-shim/test/perf && { PERF_RESULTS=$(PERF_DIR) $(PERF_DIR)/perf.test -test.run '^$$' -test.bench 'PerfScheduling/$(PERF)' \
		-test.benchtime 1x -test.timeout 60m $(PERF_FLAGS) 2>&1 | tee $(PERF_DIR)/output.log | grep --line-buffered -E '^(perf:|[┌├└│])'; } || \
		{ grep -E -- '--- FAIL|panic:|fatal|Error' $(PERF_DIR)/output.log | head -20; echo "failed; see $(PERF_DIR)/output.log"; exit 1; }

.PHONY: clean
clean: ## remove what was built
	rm -rf bin target $(LIB_HASH)
