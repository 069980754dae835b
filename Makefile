# make help says what there is. Everything is installed below this folder, redis-server excepted.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help

PY := .venv/bin/python
export VIRTUAL_ENV := $(CURDIR)/.venv
# One interpreter for every build: another one would make cargo build the bindings anew.
export PYO3_PYTHON := $(CURDIR)/$(PY)

CORE   := Cargo.toml $(wildcard Cargo.lock) core/Cargo.toml $(shell find core/src -name '*.rs' -o -name '*.lua')
PYSRC  := $(shell find bindings-python -name '*.rs' -o -name '*.toml')
NODESRC := $(shell find bindings-node \( -name '*.rs' -o -name '*.toml' -o -name '*.ts' -o -name '*.mjs' -o -name 'tsconfig*.json' \) \
	-not -name 'native.d.ts' -not -path '*/dist/*')
# The cargo profile: `release` as published, with a slow link; `local` for the tests and the demo.
PROFILE    ?= local
PY_BUILT   := target/built-python-$(PROFILE)
NODE_BUILT := target/built-node-$(PROFILE)

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^##@/ { printf "\n%s\n", substr($$0, 5) } /^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' \
		$(firstword $(MAKEFILE_LIST))

##@ First steps

.PHONY: demo
demo: build ## the quickstart, then a flash sale over a throw-away Redis
	@cargo build --quiet --release -p redlock-tests --example quickstart
	@echo; echo "1. The quickstart in Python, Node and Rust, on memory://"
	@$(PY) examples/quickstart/quickstart.py | sed 's/^/   python  /'
	@node examples/quickstart/quickstart.mjs | sed 's/^/   node    /'
	@target/release/examples/quickstart | sed 's/^/   rust    /'
	@$(PY) examples/flash-sale/demo.py

.PHONY: setup
setup: ## check the tools, install what is missing
	@scripts/setup

.PHONY: build build-release
build: setup ## build the Python and the Node package in place
	@$(MAKE) --silent $(PY_BUILT) $(NODE_BUILT)
build-release: ## the same, optimised as what is published
	@$(MAKE) --silent build PROFILE=release

$(PY_BUILT): $(CORE) $(PYSRC) pyproject.toml .venv/.installed
	rm -f target/built-python-*
	.venv/bin/maturin develop --profile $(PROFILE) --features panics --quiet 2>&1 | grep -v "already satisfied" || test "$${PIPESTATUS[0]}" = 0
	@touch $@

$(NODE_BUILT): $(CORE) $(NODESRC) package.json node_modules/.installed
	rm -f target/built-node-*
	PROFILE=$(PROFILE) npm run --silent build
	@touch $@

.PHONY: clean
clean: ## remove everything that was built or installed here
	rm -rf target dist .venv node_modules examples/server/express/node_modules bench/.venv bench/node_modules bench/out
	rm -rf tests/migration/.venv tests/migration/node_modules tests/frameworks/.venv tests/frameworks/node/node_modules
	rm -rf bindings-node/dist bindings-python/python/redlock/_native.*.so

##@ Tests

.PHONY: test test-rust test-python test-node
test: build ## every test of the first tier, in three languages
	@$(PY) scripts/test
test-rust test-python test-node: test-%:
	@$(PY) scripts/test $*

.PHONY: test-slow
test-slow: build-release ## the second tier: what needs real seconds or luck (kills, freezes, leaks, instruction counts)
	@scripts/setup --slow
	@$(PY) scripts/test --slow

.PHONY: test-acl
test-acl: build ## every test that uses a server, as a user who has no right but those that docs/security.md lists
	@scripts/test-acl

.PHONY: test-servers
test-servers: build ## Redis 6.2 and 8.0 and Valkey 9.1, which it fetches: the core's, Python's and Node's tests on each
	@scripts/test-servers

.PHONY: test-crate
test-crate: ## the Rust crate as it would be published, unpacked into an empty folder: its own tests and examples
	@scripts/crate

.PHONY: test-examples
test-examples: ## the Rust programs of examples/rust (axum, tower, smol, a cron job), whose crates it fetches
	cargo test --locked --manifest-path examples/rust/Cargo.toml --target-dir target/examples-rust

.PHONY: check-targets
check-targets: ## the crate, with TLS, compiles for Windows, macOS, ARM and musl (targets that rustup has to have; zig of `make wheels`)
	@scripts/targets

.PHONY: test-migration
test-migration: build ## eight other lock libraries on the same keys (docs/migrating-from.md)
	@tests/migration/setup
	$(PY) -m pytest tests/migration

.PHONY: test-replay
test-replay: build ## what the tests of Node's other lock libraries ask for, case by case (docs/migrating-from.md)
	node --test --test-reporter=spec $(wildcard tests/node/replay/*.test.mjs)

.PHONY: test-frameworks
test-frameworks: build ## FastAPI, Django, Celery, APScheduler, Flask and gunicorn, which it fetches: the recipes of docs/frameworks.md
	@tests/frameworks/setup
	$(PY) -m pytest tests/frameworks

.PHONY: test-frameworks-node
test-frameworks-node: build ## Express, Fastify, NestJS, BullMQ and node-cron, which it fetches: Node's recipes of docs/frameworks.md
	@tests/frameworks/node/setup
	node --test --test-reporter=spec tests/frameworks/node/*.test.mjs

.PHONY: simulate mutants
SEEDS ?= 200000
simulate: ## the algorithm over virtual time, SEEDS schedules on all cores (docs/testing.md)
	SEEDS=$(SEEDS) cargo test --release -p redlock-native --lib nothing_promised -- --nocapture
mutants: ## leave each rule out on purpose: the simulation must find it
	@SEEDS=$(SEEDS) scripts/mutants

.PHONY: fuzz
FUZZ ?= 10000000
fuzz: build ## FUZZ changed replies; one node of three that says anything for a minute; URLs and options of pieces
	FUZZ=$(FUZZ) cargo test --release -p redlock-native --lib changed_replies -- --nocapture
	FUZZ_S=60 cargo test -p redlock-tests --test alone -- fuzz --nocapture
	FUZZ_URLS=300000 $(PY) -m pytest -q tests/python/test_fuzz.py
	FUZZ_URLS=300000 node --test tests/node/fuzz.test.mjs

.PHONY: ready lint stubs
ready: build lint test ## what a change must pass: lints, types, stubs, tests
lint: stubs
	cargo fmt --all --check
	cargo fmt --manifest-path examples/rust/Cargo.toml --check
	# Not --all-targets: that would check the bindings as tests, which they are not, without their exports.
	cargo clippy --workspace --features redlock-python/panics,redlock-node/panics,redlock-tests/delifeq,redlock-tests/waitaof --lib --bins --examples --tests -- -D warnings
	scripts/features
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --no-deps --package redlock-native
	scripts/licenses --check
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy --strict
	# The development build has one name more: what panics for the tests. Some names are for type checkers alone, or gone after the import.
	$(PY) -m mypy.stubtest redlock --allowlist <(printf '%s\n' 'redlock\._native\.(__all__|_panic_for_tests)' 'redlock\._log\.(Emit|Hearer)' 'redlock\.otel\.missing')
	npm run --silent types
	npm run --silent lint

# Generated files are committed: regenerating them must change nothing.
stubs:
	@scripts/stubs
	git diff --exit-code -- bindings-python/python/redlock/_native.pyi bindings-node/native.d.ts

##@ Measurements

.PHONY: bench
BENCH ?=
bench: build-release ## side by side with ten other libraries, 20 minutes, writes docs/benchmarks.md; BENCH=--quick: 3 minutes, writes nothing
	@bench/run $(BENCH)

.PHONY: bench-waiting
bench-waiting: ## what waiting, failing nodes and held leases cost (docs/speed.md)
	cargo build --quiet --release -p redlock-tests --example waits
	@python3 bench/waits.py

.PHONY: bench-routes
bench-routes: build-release ## what Sentinel and Cluster add to a pair, beside a fixed server (docs/speed.md)
	cargo build --quiet --release -p redlock-tests --example waits
	@python3 bench/routes.py

.PHONY: soak-fencing
RUNS ?= 10000
soak-fencing: build ## fencing tokens over RUNS handoffs between three languages, clocks hours apart (docs/testing.md)
	RUNS=$(RUNS) REDLOCK_TEST_TIER=all $(PY) -m pytest -q -s tests/cross/test_fencing.py -k only_grow

.PHONY: soak-failover
FAILOVERS ?= 7
soak-failover: build ## fail over under holders, FAILOVERS times each way in each language: who holds when, who is told when (docs/testing.md)
	RUNS=$(FAILOVERS) REDLOCK_TEST_TIER=all $(PY) -m pytest -q -s tests/cross/test_failover.py

.PHONY: soak-python
CYCLES ?= 200000
FORKS ?= 1000
soak-python: build ## CYCLES acquires of every kind in each way that Python waits, FORKS forks under load: nothing grows, nothing hangs
	FORKS=$(FORKS) REDLOCK_TEST_TIER=slow $(PY) -m pytest -q -s tests/python/test_fork.py
	CYCLES=$(CYCLES) REDLOCK_TEST_TIER=slow $(PY) -m pytest -q -s tests/python/test_leaks.py

.PHONY: soak-services
SECONDS ?= 300
soak-services: build ## FastAPI and Celery over one Redis, killed and restarted at random for SECONDS: who holds when, what stays, what hangs
	@tests/frameworks/setup
	SOAK_SECONDS=$(SECONDS) $(PY) -m pytest -q -s tests/frameworks/test_services.py

.PHONY: soak-leaks
soak-leaks: build ## a million calls of Node, aborted ones among them: memory, files, threads and handles stay as they are
	ROUNDS=333334 REDLOCK_TEST_TIER=slow REDLOCK_TEST_PATIENCE=900000 node --test --test-reporter=spec tests/node/leaks.test.mjs

.PHONY: soak-services-node
MINUTES ?= 5
soak-services-node: build ## kill a cluster, a BullMQ worker and their Redis for MINUTES: no two holders, no key that stays, no hang
	@tests/frameworks/node/setup
	MINUTES=$(MINUTES) REDLOCK_TEST_PATIENCE=$$(( $(MINUTES) * 60000 + 180000 )) node --test --test-reporter=spec tests/frameworks/node/services.test.mjs

.PHONY: measure-loss
CUTS ?= 20
measure-loss: build ## cut holders off and take their leases, CUTS times each way: how soon they are told (docs/testing.md)
	RUNS=$(CUTS) REDLOCK_TEST_TIER=all $(PY) -m pytest -q -s tests/cross/test_told.py tests/cross/test_loss.py

.PHONY: measure-cluster
measure-cluster: build ## fail a Redis Cluster over CUTS times each way under a holder, and move its slot 50 times (docs/cluster.md)
	RUNS=$(CUTS) REDLOCK_TEST_TIER=all $(PY) -m pytest -q -s tests/cross/test_cluster.py

##@ Packages

.PHONY: wheels
wheels: build-release ## what would be published, for this platform, into dist/: wheel, sdist, npm packages
	@scripts/wheels

# What is published can be built again by anybody who wants to see where it comes from.
.PHONY: twice
twice: wheels ## build it again from nothing: the files must be the same
	@scripts/twice

.PHONY: test-cross
test-cross: wheels ## wheels and Node's binaries for ARM and musl, built by zig; run: those for ARM under emulation, Node's for musl
	@scripts/cross

BUNDLERS := REDLOCK_TEST_PATIENCE=400000 node --test --test-reporter=spec --test-concurrency=1 tests/packages/bundlers/*.test.mjs
.PHONY: test-packages test-runtimes test-bundlers
test-bundlers: build ## a program with the Node package by esbuild, webpack, Rollup, ncc, bun, Vite and Next, which it fetches
	rm -rf target/bundlers
	npm run --silent pack -- $(CURDIR)/target/bundlers
	$(BUNDLERS)
test-packages: wheels twice ## install what would be published into empty folders and use it every way, bundled too
	$(PY) -m pytest tests/packages/python
	REDLOCK_TEST_PATIENCE=400000 npm run --silent test:packages
	rm -rf target/bundlers
	mkdir target/bundlers
	cp dist/*.tgz target/bundlers
	$(BUNDLERS)
test-runtimes: build ## the Node package's whole suite under Node 22 and 24; what it must do under Bun and Deno; it fetches them
	REDLOCK_TEST_PATIENCE=1800000 node --test --test-reporter=spec tests/packages/runtimes/runtimes.test.mjs
