# Wakecall. `make help` lists what is here; `make run` and `make test` install by apt-get what they miss.

SHELL         := /bin/bash
.SHELLFLAGS   := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

GO          ?= go
BINARY      := bin/wakecall
VERSION     := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS     := -s -w -X main.version=$(VERSION)
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.8.0
BENCHSTAT   := golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

# What `wakecall up` gets from `make run`, and `wakecall bench` from `make bench`.
ARGS     ?=
# How long `make fuzz` stays with each target.
FUZZTIME ?= 30s
# Of `make benchstat`: compared with which commit, how often, which packages.
BASE     ?= HEAD
ROUNDS   ?= 6
BENCHES  ?= ./queue ./journal ./callback ./server ./dispatcher
# Of `make chaos`.
SECONDS  ?= 1800
SEED     ?=
ONLY     ?=
# Narrows the integration tests: make integration RUN=TestKill
RUN      ?= .

# Everything but the integration tests, which have real processes and a target of their own.
UNIT := packages=$$($(GO) list ./... | grep -v -e '/test$$' -e '/test/chaos$$');

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: need-redis build ## install what is missing, build, and start Wakecall here with a demo topic and endpoint
	exec $(BINARY) up --demo $(ARGS)

.PHONY: build
build: ## bin/wakecall
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o $(BINARY) ./cmd/wakecall

.PHONY: web
web: ## fetch what the web admin takes from npm, and make web/dist of it (committed)
	npm ci --no-audit --no-fund --ignore-scripts
	node scripts/web/build.mjs

.PHONY: test
test: need-all lint audit unit integration ## install what is missing; every check and every test but chaos

.PHONY: unit
unit: ## the packages' own tests, with the race detector
	$(UNIT) $(GO) test -race -timeout 5m $$packages

.PHONY: integration
integration: ## tests of real processes: wakecall, redis-server, MariaDB
	$(GO) test -race -count=1 -timeout 20m -run '$(RUN)' ./test/

.PHONY: chaos
chaos: need-all ## break everything under load for SECONDS (1800) from SEED (a fresh one), only faults that have ONLY in their names; then count
	CHAOS_SECONDS=$(SECONDS) CHAOS_SEED=$(SEED) CHAOS_ONLY='$(ONLY)' CHAOS_RECORD=$(CURDIR)/dist $(GO) test -count=1 -v -timeout 24h -run TestChaos ./test/chaos/

.PHONY: chaos-short
chaos-short: ## the same for 90 seconds
	CHAOS_SECONDS=90 $(GO) test -race -count=1 -timeout 10m ./test/chaos/

.PHONY: lint
lint: ## gofmt, go vet, staticcheck
	@unformatted=$$(gofmt -l .); \
	if [ -n "$$unformatted" ]; then echo "not gofmt'ed (run gofmt -w on them):"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

.PHONY: audit
audit: build ## licences of the modules in the binary, and known vulnerabilities (of those, only with a way to vuln.go.dev)
	$(GO) run ./scripts/audit licences $(BINARY)
	GO=$(GO) scripts/vulncheck $(GOVULNCHECK)

.PHONY: sbom
sbom: build ## dist/wakecall.cdx.json: the bill of materials of bin/wakecall (CycloneDX)
	@mkdir -p dist
	$(GO) run ./scripts/audit sbom $(BINARY) $(VERSION) >dist/wakecall.cdx.json

.PHONY: cover
cover: need-all ## cover.out over unit and integration tests, and the total
	rm -rf dist/cover && mkdir -p dist/cover
	$(UNIT) $(GO) test -timeout 5m -cover -coverpkg=./... $$packages -args -test.gocoverdir=$(CURDIR)/dist/cover
	WAKECALL_TEST_COVERDIR=$(CURDIR)/dist/cover $(GO) test -count=1 -timeout 12m ./test/
	$(GO) tool covdata textfmt -i=dist/cover -o=cover.out
	$(GO) tool cover -func=cover.out | tail -1

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (30s) each
	@for pkg in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "== $$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

.PHONY: bench
bench: need-redis build ## the benchmark beside this machine's own limits, as a table
	$(BINARY) bench $(ARGS)

.PHONY: benchstat
benchstat: need-redis ## the packages' own benchmarks beside those of the commit BASE (HEAD), round by round
	rm -rf dist/base dist/base.txt dist/here.txt; git worktree prune; git worktree add -q --detach dist/base $(BASE)
	for round in $$(seq $(ROUNDS)); do \
		(cd dist/base; $(GO) test -run '^$$' -bench . $(BENCHES)) >> dist/base.txt; \
		$(GO) test -run '^$$' -bench . $(BENCHES) >> dist/here.txt; \
	done
	git worktree remove --force dist/base
	$(GO) run $(BENCHSTAT) base=dist/base.txt here=dist/here.txt

.PHONY: screenshots
screenshots: need-all ## every page of the web admin, light and dark, three widths, two languages, in dist/screenshots; those of the documents
	@fc-list :lang=zh | grep -q . || scripts/install a-font-for-chinese=fonts-wqy-microhei
	mkdir -p dist/screenshots docs/screenshots
	WAKECALL_SCREENSHOTS=$(CURDIR)/dist/screenshots WAKECALL_PICTURES=$(CURDIR)/docs/screenshots $(GO) test -count=1 -timeout 30m -run TestScreenshots ./test/

.PHONY: clean
clean: ## remove what the other targets made (not ./data)
	rm -rf bin dist cover.out

# Commands and the packages that bring them. The race detector needs a C compiler.
.PHONY: need-redis need-all
need-redis:
	@scripts/install redis-server=redis-server
need-all:
	@scripts/install redis-server=redis-server mariadbd=mariadb-server chromium=chromium gcc=gcc,libc6-dev git=git
