# `make help` lists the targets. Everything except redis-server is installed below this folder.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help

PY := .venv/bin/python
export VIRTUAL_ENV := $(CURDIR)/.venv
# Every cargo command uses these values. With others, cargo would compile the Python binding again.
export PYO3_PYTHON := $(CURDIR)/$(PY)
export PYO3_BUILD_EXTENSION_MODULE := 1

SOURCES := $(shell find Cargo.toml Cargo.lock core cli bindings-python bindings-node examples/quickstart package.json pyproject.toml scripts/build \
	\( -name '*.rs' -o -name '*.lua' -o -name '*.toml' -o -name '*.lock' -o -name '*.ts' -o -name '*.mjs' -o -name '*.json' -o -name build \) \
	-type f -not -path '*/tests/*' -not -name native.d.ts -not -name '*.cdx.json' -not -path '*/dist/*' -not -path '*/npm/*')
# The cargo profile: `dev` for the tests and the demo, `release` as in published packages, with a slow link.
PROFILE ?= dev
BUILT   := target/built-$(PROFILE)

.PHONY: help help-all
help: ## list the targets that you need first
	@awk -F ':.*##! ' '/^[a-z-]+:.*##! / { printf "  make %-22s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo; echo "  make help-all lists every target."
help-all: ## list every target
	@awk -F ':.*##!? ' '/^##@/ { printf "\n%s\n", substr($$0, 5) } /^[a-z-]+:.*##!? / { printf "  make %-22s %s\n", $$1, $$2 }' \
		$(firstword $(MAKEFILE_LIST))

##@ First steps

.PHONY: demo plan
plan:
	@scripts/setup --plan
demo: plan ##! run the quickstart in each language, then a flash sale against a temporary Redis
	@scripts/setup demo
	@$(MAKE) --silent $(BUILT)
	@echo; echo "1. The quickstart in Python, Node and Rust, on memory://"
	@$(PY) examples/quickstart/quickstart.py | sed 's/^/   python  /'
	@node examples/quickstart/quickstart.mjs | sed 's/^/   node    /'
	@target/debug/quickstart | sed 's/^/   rust    /'
	@$(PY) examples/flash-sale/demo.py

.PHONY: setup
setup: ## check the tools and install what is missing
	@scripts/setup test

.PHONY: build build-release
build: setup ##! build the Python and the Node.js package in place
	@$(MAKE) --silent $(BUILT)
build-release: ## build them with the optimisation of published packages
	@$(MAKE) --silent build PROFILE=release

$(BUILT): $(SOURCES) .venv/.demo node_modules/.installed
	@rm -f target/built-*
	$(PY) scripts/build $(PROFILE)
	@touch $@

.PHONY: clean
clean: ##! remove everything that was built or installed in this folder
	rm -rf target dist .venv node_modules examples/server/express/node_modules bench/.venv bench/node_modules bench/out
	rm -rf docs/.venv scripts/site/overrides/assets scripts/site/node/node_modules tests/migration/.venv tests/migration/node_modules tests/frameworks/.venv tests/frameworks/node/node_modules
	rm -rf bindings-node/dist bindings-python/python/redlock/_native.*.so

##@ Tests

.PHONY: test test-rust test-python test-node
test: build ##! run the first tier of tests in all three languages
	@$(PY) scripts/test
test-rust: setup ##! run the tests of Rust, or those whose name contains T=name
	@$(PY) scripts/test $(if $(T),--select $(T)) rust
test-python: build ##! run the tests of Python, or those that match K=expression (pytest -k)
	@$(PY) scripts/test $(if $(K),--select "$(K)") python
test-node: build ##! run the tests of Node.js, or the files whose name contains F=name
	@$(PY) scripts/test $(if $(F),--select $(F)) node

.PHONY: test-slow
test-slow: build-release ##! run the slow tier: tests that need real seconds or a quiet machine
	@scripts/setup --slow
	@$(PY) scripts/test --slow

.PHONY: test-acl
test-acl: build ## run the tests that use a server as a user with only the permissions of docs/operate/security.md
	@scripts/test-acl

.PHONY: test-servers
test-servers: build ## fetch Redis 6.2 and 8.0 and Valkey 9.1 and run the tests on each
	@scripts/test-servers

.PHONY: test-crate
test-crate: ## package the Rust crate and run its tests and examples in an empty folder
	@scripts/crate

.PHONY: test-examples
test-examples: ## run the programs of examples/rust (axum, tower, smol, cron) and fetch their crates
	cargo test --locked --manifest-path examples/rust/Cargo.toml --target-dir target/examples-rust

.PHONY: check-targets
check-targets: ## check that the crate compiles for Windows, macOS, ARM and musl (needs the rustup targets and zig)
	@scripts/targets

.PHONY: test-migration
test-migration: build ## test against eight other lock libraries on the same keys (docs/migrate)
	@tests/migration/setup
	$(PY) -m pytest tests/migration

.PHONY: test-replay
test-replay: build ## replay the test cases of other Node.js lock libraries (docs/contributing/replayed-tests.md)
	node --test --test-reporter=spec $(wildcard tests/node/replay/*.test.mjs)

.PHONY: test-manifests
test-manifests: ## check the manifests of examples/kubernetes against the schemas of Kubernetes
	@tests/manifests/run

.PHONY: test-frameworks
test-frameworks: build ## fetch FastAPI, Django, Celery, dramatiq, rq, Flask and others and test the recipes of docs/how-to
	@tests/frameworks/setup
	$(PY) -m pytest tests/frameworks

.PHONY: test-frameworks-node
test-frameworks-node: build ## fetch Express, Fastify, NestJS, BullMQ and node-cron and test their recipes
	@tests/frameworks/node/setup
	node --test --test-reporter=spec tests/frameworks/node/*.test.mjs

.PHONY: simulate mutants
SEEDS ?= 200000
simulate: ## simulate SEEDS schedules of the algorithm in virtual time (docs/contributing/testing.md)
	SEEDS=$(SEEDS) cargo test --release -p redlock-simulation --test=simulation -- tests::simulation:: --nocapture
mutants: ## run mutation tests against the simulation, the loom models and single tests
	@SEEDS=$(SEEDS) scripts/mutants

.PHONY: fuzz
FUZZ ?= 10000000
fuzz: build ## fuzz replies (FUZZ of them), one node of three, URLs and options
	FUZZ=$(FUZZ) cargo test --release -p redlock-simulation --test=simulation -- mutated_replies --nocapture
	FUZZ_S=60 cargo test --workspace --test=alone -- fuzz --nocapture
	FUZZ_URLS=300000 $(PY) -m pytest -q tests/python/test_fuzz.py
	FUZZ_URLS=300000 node --test tests/node/fuzz.test.mjs

.PHONY: ready lint stubs
ready: build lint test ##! run what a change must pass: lints, types, stubs and tests
lint: stubs ## check formats, lints, types and generated files
	cargo fmt --all --check
	cargo fmt --manifest-path examples/rust/Cargo.toml --check
	# Not --all-targets: that would check the bindings as tests, which they are not, without their exports.
	cargo clippy --workspace --features redlock-python/panics,redlock-node/panics,redlock-tests/waitaof,redlock-tests/slow --lib --bins --examples --tests --test=simulation -- -D warnings
	scripts/features
	# Of the whole workspace, for the features that clippy has checked the dependencies with.
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --no-deps --workspace --lib
	scripts/licenses --check
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy --strict
	# The development build has another name: a panic for the tests. Some names exist for type checkers only, or not after the import.
	# Functions with options take *args and **kwargs at runtime, for the text of their error. `with` over async classes is an error.
	# Some coroutine functions are a `def` in the source, which reads the caller's line. At runtime, an alias of literals is not a union.
	$(PY) -m mypy.stubtest redlock --allowlist <(printf '%s\n' 'redlock\._native\.(__all__|_panic_for_tests|configure|leader|lock|once|rwlock|semaphore|(Async)?Lock\.acquire|(Async)?RwLock\.(read|write|__a?enter__|__a?exit__)|(Async)?Redlock\.(__new__|leader|lock|once|rwlock|semaphore))' 'redlock\._native\.(Async\w+\.__|(Lease|Redlock)\.__a)(enter|exit)__' 'redlock\._asyncio\.AsyncLock\.(acquire|attach|try_acquire)' 'redlock\._asyncio\.(Async)?Lock\.__aenter__' 'redlock\._body\.EnteredFor\.__a(enter|exit)__' 'redlock\._client\.AsyncRedlock\.attach' 'redlock\._once\.AsyncOnce\.run' 'redlock\._leader\.AsyncLeader\.(run|__aenter__)' 'redlock\._log\.(Emit|Line|Subscriber)' 'redlock\.types\.(ErrorCode|LossReason|NodeState)')
	npm run --silent types
	npm run --silent lint

# Generated files are committed: regenerating them must change nothing.
stubs: ## regenerate the type stubs and the tables of docs/reference, and check that nothing changes
	@scripts/setup lint
	@scripts/stubs
	@scripts/reference
	git diff --exit-code -- bindings-python/python/redlock/_native.pyi bindings-node/ts/native.d.ts docs/reference

##@ Measurements

.PHONY: bench
BENCH ?=
bench: build-release ##! compare with ten other libraries and write docs/benchmarks.md and bench/results.md (40 minutes; BENCH=--quick: 3 minutes, writes nothing)
	@bench/run $(BENCH)

.PHONY: bench-waiting
bench-waiting: ## measure waiting, failing nodes and held leases (bench/measurements.md)
	cargo build --quiet --release -p redlock-bench --bin waits
	@python3 bench/waits.py

.PHONY: bench-semaphores
bench-semaphores: build-release ## compare semaphores with those of redis-semaphore (bench/measurements.md)
	@cd bench && npm ci --no-audit --no-fund --loglevel=error
	@node bench/permits.mjs

.PHONY: bench-readers bench-scripts
bench-readers: build-release ## compare a read/write lock with a lock for all (bench/measurements.md)
	@cd bench && npm ci --no-audit --no-fund --loglevel=error
	@node bench/readers.mjs
bench-scripts: build-release ## measure the server's time for each script (bench/measurements.md)
	@cd bench && npm ci --no-audit --no-fund --loglevel=error
	@node bench/scripts.mjs

.PHONY: bench-freed
bench-freed: build-release ## measure how soon a freed permit of a semaphore is taken (bench/measurements.md)
	@$(PY) bench/freed.py

.PHONY: bench-routes
bench-routes: build-release ## measure what Sentinel and Cluster add to an acquire and release (bench/measurements.md)
	cargo build --quiet --release -p redlock-bench --bin waits
	@python3 bench/routes.py

.PHONY: soak-fencing
RUNS ?= 10000
soak-fencing: build ## check fencing tokens over RUNS handoffs between three languages with skewed clocks
	RUNS=$(RUNS) REDLOCK_TEST_TIER=all $(PY) -m pytest -q -s tests/cross/test_fencing.py -k only_grow

.PHONY: soak-failover
FAILOVERS ?= 7
soak-failover: build ## fail over FAILOVERS times in each language and record holders and notifications
	RUNS=$(FAILOVERS) REDLOCK_TEST_TIER=all $(PY) -m pytest -q -s tests/cross/test_failover.py

.PHONY: soak-python
CYCLES ?= 200000
FORKS ?= 1000
soak-python: build ## run CYCLES acquires in each way that Python waits, and FORKS forks, and look for leaks and hangs
	FORKS=$(FORKS) REDLOCK_TEST_TIER=slow $(PY) -m pytest -q -s tests/python/test_fork.py
	CYCLES=$(CYCLES) REDLOCK_TEST_TIER=slow $(PY) -m pytest -q -s tests/python/test_leaks.py

.PHONY: soak-services
SECONDS ?= 300
soak-services: build ## kill and restart FastAPI, Celery and Redis for SECONDS and look for two holders, leftover keys and hangs
	@tests/frameworks/setup
	SOAK_SECONDS=$(SECONDS) $(PY) -m pytest -q -s tests/frameworks/test_services.py

.PHONY: soak-leaks
soak-leaks: build ## run a million calls in Node.js and compare memory, files, threads and handles
	ROUNDS=333334 REDLOCK_TEST_TIER=slow REDLOCK_TEST_PATIENCE=900000 node --test --test-reporter=spec tests/node/leaks.test.mjs

.PHONY: soak-services-node
MINUTES ?= 5
soak-services-node: build ## kill a Node.js cluster, a BullMQ worker and Redis for MINUTES and look for the same
	@tests/frameworks/node/setup
	MINUTES=$(MINUTES) REDLOCK_TEST_PATIENCE=$$(( $(MINUTES) * 60000 + 180000 )) node --test --test-reporter=spec tests/frameworks/node/services.test.mjs

.PHONY: measure-loss
CUTS ?= 20
measure-loss: build ## cut holders off CUTS times each way and measure how soon they are notified (docs/contributing/testing.md)
	RUNS=$(CUTS) REDLOCK_TEST_TIER=all $(PY) -m pytest -q -s tests/cross/test_notified_first.py tests/cross/test_loss.py

.PHONY: measure-cluster
measure-cluster: build ## fail a Redis Cluster over CUTS times under a holder and move its slot 50 times (docs/operate/cluster.md)
	RUNS=$(CUTS) REDLOCK_TEST_TIER=all $(PY) -m pytest -q -s tests/cross/test_cluster.py

##@ Documentation

.PHONY: docs
docs: ##! build the documentation site into target/site and check its links (installs mkdocs into docs/.venv and TypeDoc into scripts/site/node)
	@scripts/docs

##@ Packages

.PHONY: wheels
wheels: build-release ##! build the wheel, sdist and npm packages for this platform into dist/
	@scripts/setup lint
	@scripts/wheels

# Checks that builds are reproducible, so that users can verify published packages.
.PHONY: twice
twice: wheels ## build the packages twice and compare the files
	@scripts/twice

.PHONY: test-cross
test-cross: wheels ## build packages for ARM and musl with zig and run what this machine can run
	@scripts/cross

BUNDLERS := REDLOCK_TEST_PATIENCE=400000 node --test --test-reporter=spec --test-concurrency=1 tests/packages/bundlers/*.test.mjs
.PHONY: test-packages test-runtimes test-bundlers
test-bundlers: build ## bundle the Node.js package with esbuild, webpack, Rollup, ncc, bun, Vite and Next
	rm -rf target/bundlers
	npm run --silent pack -- $(CURDIR)/target/bundlers
	$(BUNDLERS)
test-packages: wheels twice ## install the built packages into empty folders and use them
	$(PY) -m pytest tests/packages/python
	REDLOCK_TEST_PATIENCE=400000 npm run --silent test:packages
	rm -rf target/bundlers
	mkdir target/bundlers
	cp dist/*.tgz target/bundlers
	$(BUNDLERS)
test-runtimes: build ## run the Node.js suite under Node.js 22 and 24, and a part of it under Bun and Deno
	REDLOCK_TEST_PATIENCE=1800000 node --test --test-reporter=spec tests/packages/runtimes/runtimes.test.mjs
