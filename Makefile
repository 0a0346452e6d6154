# Wakecall. `make help` lists the targets. `make run` and `make test` install with apt-get what they need.

SHELL         := /bin/bash
.SHELLFLAGS   := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

GO          ?= go
BINARY      := bin/wakecall
VERSION     := $(shell git describe --tags --match 'v*' --always --dirty 2>/dev/null || echo dev)
LDFLAGS     := -s -w -X main.linked=$(VERSION)
GOLANGCI    := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOTESTSUM   := gotest.tools/gotestsum@v1.13.0
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.8.0
LICENSES    := github.com/google/go-licenses@v1.6.0
HELM        := helm.sh/helm/v3/cmd/helm@v3.22.0
OAPI        := github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2
OAPI_LIB    := github.com/oapi-codegen/runtime@v1.9.0
GORELEASER  := github.com/goreleaser/goreleaser/v2@v2.15.1
CYCLONEDX   := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
JSONNET     := github.com/google/go-jsonnet/cmd/jsonnet@v0.22.0
BENCHSTAT   := golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

# The modules of go.work. ./... alone leaves out the client, which is a module of its own.
PACKAGES    := ./... ./client/...
# The oldest Go for which client/go.mod promises the client.
CLIENT_GO   := go1.24.0

DOCKER      ?= docker
PLATFORM     = linux/$(shell $(GO) env GOARCH)
IMAGE        = DOCKER_BUILDKIT=1 $(DOCKER) build --build-arg TARGETPLATFORM=$(PLATFORM) --build-arg VERSION=$(VERSION)

# One set of build flags, so that lint, the binary and the tests share the cached packages. RACE_ENV is that of tests with
# the race detector, which needs cgo and packages of its own: building these takes minutes, so it is for CI and for whoever
# works on what runs at once. With cgo, gorm brings along the C SQLite, which nothing calls: optimizing it would take half a
# minute. In SQLite's translation to Go, which is what runs, checks of pointers take a seventh of the time of tests with a
# database. Tests run without vet: lint has run all of it.
export CGO_ENABLED := 0
export GOFLAGS     := -trimpath
RACE_ENV := CGO_ENABLED=1 CGO_CFLAGS=-O0 'GOFLAGS=$(GOFLAGS) -gcflags=modernc.org/...=-d=checkptr=0' GORACE=atexit_sleep_ms=0

# Arguments of `wakecall up` in `make run`, of the benchmark in `make bench`: -quick, -only push,batch, -runs 5, and of
# `make docs`: --base /wakecall/ for a site below that path.
ARGS     ?=
# How long `make fuzz` runs each target.
FUZZTIME ?= 30s
# For `make benchstat`: the commit to compare with, the number of rounds, the packages.
BASE     ?= HEAD
ROUNDS   ?= 6
BENCHES  ?= ./internal/store ./internal/journal ./internal/callback ./server ./dispatcher
# For `make chaos`.
SECONDS  ?= 1800
SEED     ?=
ONLY     ?=
MIXED    ?=
# shards (two), cluster or standalone. CHAOS_DATABASE=mariadb or postgres names the registry's database; otherwise, the
# seed decides.
CHAOS_DEPLOYMENT ?= shards
RATE     ?=
JOBS     ?=
# Selects integration tests: make integration RUN=TestMasterKilled
RUN      ?= .
# How often up to three failed tests are run again by themselves; the run passes when they do, and names them at its end. CI
# sets 1, so that one test that depends on the machine's timing does not hold up a change. A data race always fails.
RERUN    ?= 0
# Time limit of each package's tests.
TIMEOUT  ?= 20m
# RACE=1 runs unit tests with the race detector. CI sets it.
RACE     ?=

# The argument is the environment of the tests, but not of gotestsum, which would be built a second time.
TESTS = $(GO) run -exec "env $(1)" $(GOTESTSUM) --format standard-quiet --hide-summary skipped --rerun-fails=$(RERUN) \
	--rerun-fails-max-failures=3 --rerun-fails-abort-on-data-race --rerun-fails-run-root-test

# All packages but the integration tests, which start real processes and have targets of their own. Those that take the
# longest come first, so that none of them runs alone at the end.
UNIT := packages=$$(echo ./internal/store ./server ./test/charttest; $(GO) list $(PACKAGES) | grep -v -e '/test$$' -e '/test/chaos$$');

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: need-redis build ## install Redis if it is missing, build, and start Wakecall here with a demo topic and endpoint
	exec $(BINARY) up --demo $(ARGS)

.PHONY: build
build: ## bin/wakecall
	$(GO) build -buildvcs=false -ldflags '$(LDFLAGS)' -o $(BINARY) ./cmd/wakecall

.PHONY: image
image: ## build the images wakecall and wakecall:redis with Docker; DOCKER=podman: with that
	GOOS=linux $(GO) build -buildvcs=false -ldflags '$(LDFLAGS)' -o dist/image/$(PLATFORM)/wakecall ./cmd/wakecall
	$(IMAGE) -f deploy/Dockerfile -t wakecall dist/image
	$(IMAGE) -f deploy/Dockerfile.redis -t wakecall:redis dist/image

.PHONY: web
web: ## fetch the web admin's npm packages and rebuild web/dist (committed)
	npm ci --no-audit --no-fund --ignore-scripts
	node scripts/web/build.mjs

.PHONY: docs
docs: ## build the site of the documents (dist/docs); installs node and npm if they are missing
	@scripts/install node=nodejs npm=npm
	cd docs && npm ci --no-audit --no-fund --ignore-scripts && npx vitepress build . $(ARGS)

# The rendered files are committed, for those who have no jsonnet. lint renders them again and compares.
MIXIN ?= deploy/mixin/rendered
.PHONY: mixin
mixin: ## render the alerts, rules and boards of deploy/mixin to deploy/mixin/rendered (committed)
	@$(GO) run $(JSONNET) -S -c -m $(MIXIN) deploy/mixin/render.jsonnet > /dev/null

.PHONY: test
test: need-all lint audit unit integration ## install what is missing, then run every check and test but chaos

.PHONY: test-long
test-long: export WAKECALL_TEST_LONG := 1
test-long: TIMEOUT := 4h
test-long: test ## make test with all of each matrix, of which make test runs a sample, and exact limits

.PHONY: unit
unit: ## the packages' own tests, six packages at once, because their tests wait a lot; RACE=1: with the race detector
	$(UNIT) $(call TESTS,$(if $(RACE),$(RACE_ENV))) --packages "$$packages" -- \
		$(if $(RACE),-race) -vet=off -p 6 -parallel 8 -timeout $(TIMEOUT)
	$(if $(RACE),$(call TESTS) --packages ./dispatcher -- -vet=off -run 'Priorit|Alone|ShareEqually|DelayNobody')

.PHONY: client
client: ## the Go client's own tests, without the rest of the repository, with the oldest Go that it supports
	cd client && GOWORK=off GOTOOLCHAIN=$(CLIENT_GO) $(GO) test ./...

.PHONY: integration
integration: build ## tests of real processes: the binary of make build, redis-server, MariaDB, PostgreSQL
	$(call TESTS,WAKECALL_TEST_BINARY=$(CURDIR)/$(BINARY)) --packages ./test -- -vet=off -count=1 -timeout $(TIMEOUT) -run '$(RUN)'

.PHONY: chaos
chaos: need-all ## inject faults under load for SECONDS (1800) from SEED (random), only those named like ONLY; then count
	CHAOS_SECONDS=$(SECONDS) CHAOS_SEED=$(SEED) CHAOS_ONLY='$(ONLY)' CHAOS_MIXED='$(MIXED)' CHAOS_RATE=$(RATE) CHAOS_JOBS=$(JOBS) \
		CHAOS_DEPLOYMENT=$(CHAOS_DEPLOYMENT) CHAOS_RECORD=$(CURDIR)/dist $(GO) test -count=1 -v -timeout 24h -run TestChaos ./test/chaos/

.PHONY: chaos-short
chaos-short: need-all ## the same for 90 seconds, with the race detector in every process
	env $(RACE_ENV) CHAOS_SECONDS=90 $(GO) test -race -count=1 -timeout 15m ./test/chaos/

.PHONY: bad-day
bad-day: need-redis build ## play 36 bad minutes in six; print what pages, mails, commands and the endpoint's ledger say
	WAKECALL_TEST_BINARY=$(CURDIR)/$(BINARY) WAKECALL_BAD_DAY=10s $(GO) test -vet=off -count=1 -v -timeout 20m -run TestABadDay ./test/

.PHONY: generated-client
generated-client: need-redis build ## make a client of server/openapi.yaml with oapi-codegen, compile it, push and read a job
	WAKECALL_TEST_BINARY=$(CURDIR)/$(BINARY) WAKECALL_TEST_OAPI_CODEGEN=$(OAPI) WAKECALL_TEST_OAPI_RUNTIME=$(OAPI_LIB) \
		$(GO) test -vet=off -count=1 -timeout 20m -run TestAGeneratedClient ./test/

.PHONY: check
check: lint ## format, lint and unit tests, without those that start many processes: before each commit
	$(UNIT) $(call TESTS) --packages "$$packages" -- -short -vet=off -p 6 -parallel 8 -timeout 10m

.PHONY: lint
lint: ## gofmt, golangci-lint with .golangci.yml, and whether deploy/mixin/rendered is up to date
	@unformatted=$$(gofmt -l .); \
	if [ -n "$$unformatted" ]; then echo "not gofmt'ed (run gofmt -w on them):"; echo "$$unformatted"; exit 1; fi
	$(GO) run $(GOLANGCI) run $(PACKAGES)
	@rendered=$$(mktemp -d); trap 'rm -rf "$$rendered"' EXIT; \
	$(MAKE) -s mixin MIXIN="$$rendered" && diff -r "$$rendered" deploy/mixin/rendered || \
		{ echo "deploy/mixin/rendered is not what its sources make: run make mixin"; exit 1; }

# Licences that a program under the Apache License 2.0 may include with no more than a notice. go-licenses does not
# recognize two: the file of modernc.org/mathutil is BSD-3-Clause in other words, that of github.com/segmentio/asm is
# MIT-0. Without GOROOT it takes all packages for Go's own when it is built with -trimpath.
ALLOWED := Apache-2.0,BSD-2-Clause,BSD-3-Clause,ISC,MIT,MPL-2.0,CC0-1.0,Unlicense

.PHONY: audit
audit: ## check the licences of the binary's modules, and look for known vulnerabilities if vuln.go.dev can be reached
	GOROOT=$$($(GO) env GOROOT) $(GO) run $(LICENSES) check ./cmd/wakecall --allowed_licenses=$(ALLOWED) \
		--ignore modernc.org/mathutil --ignore github.com/segmentio/asm 2>&1 | { grep -v '^W\|^/\|contains non-Go code' || true; }
	GO=$(GO) scripts/vulncheck $(GOVULNCHECK)

.PHONY: sbom
sbom: SBOM ?= dist/wakecall.cdx.json
sbom: $(if $(OF),,build) ## write the bill of materials of bin/wakecall (CycloneDX) to dist/wakecall.cdx.json
	@mkdir -p $(dir $(SBOM))
	$(GO) run $(CYCLONEDX) bin -json -std -licenses -version $(VERSION) -output $(SBOM) $(or $(OF),$(BINARY))

# GoReleaser would also take a tag of the client's module.
packages release: export GORELEASER_CURRENT_TAG := $(shell git describe --tags --match 'v*' --abbrev=0 2>/dev/null || echo v0.0.0)

# Images need a Docker engine.
.PHONY: packages
packages: ## try the release without publishing it: dist/release has archives, deb, rpm, checksums, bill of materials
	$(GO) run $(GORELEASER) release --snapshot --clean \
		$(if $(shell docker version --format '{{.Server.Version}}' 2>/dev/null),,--skip=docker)

.PHONY: release
release: ## publish the release of the tag that is checked out; only .github/workflows/release.yaml does this
	$(GO) run $(GORELEASER) release --clean

.PHONY: package-test
package-test: ## install, upgrade, remove and purge the deb of make packages on a Debian that systemd-nspawn boots; as root
	@scripts/install debootstrap=debootstrap,debian-archive-keyring systemd-nspawn=systemd-container
	scripts/package-test dist/release/wakecall_*_$$(dpkg --print-architecture).deb

.PHONY: chart
chart: ## package the Helm chart into dist/; PUSH=oci://… gives it the version of the tag and publishes it
	rm -f dist/wakecall-*.tgz
	$(GO) run $(HELM) lint --strict deploy/helm/wakecall
	$(GO) run $(HELM) package deploy/helm/wakecall --destination dist $(if $(PUSH),--version $(VERSION:v%=%) --app-version $(VERSION:v%=%))
	$(if $(PUSH),$(GO) run $(HELM) push dist/wakecall-*.tgz $(PUSH))

.PHONY: cover
cover: need-all ## measure the coverage of unit and integration tests together: cover.out, and the total
	rm -rf dist/cover && mkdir -p dist/cover
	$(UNIT) $(GO) test -timeout 5m -cover -coverpkg=./...,./client/... $$packages -args -test.gocoverdir=$(CURDIR)/dist/cover
	WAKECALL_TEST_COVERDIR=$(CURDIR)/dist/cover $(GO) test -count=1 -timeout 20m ./test/
	$(GO) tool covdata textfmt -i=dist/cover -o=cover.out
	$(GO) tool cover -func=cover.out | tail -1

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (30s)
	@for pkg in $$($(GO) list $(PACKAGES)); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "== $$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

.PHONY: bench
bench: need-redis build ## measure bin/wakecall beside this machine's own limits; ARGS="-quick -only push,batch"
	WAKECALL_BENCH=1 WAKECALL_TEST_BINARY=$${WAKECALL_TEST_BINARY:-$(CURDIR)/$(BINARY)} \
		$(GO) test -vet=off -count=1 -v -timeout 12h -run '^TestBench$$' ./test/bench -args $(ARGS)

.PHONY: benchstat
benchstat: need-redis ## compare the packages' benchmarks with those of the commit BASE (HEAD)
	rm -rf dist/base dist/base.txt dist/here.txt; git worktree prune; git worktree add -q --detach dist/base $(BASE)
	for round in $$(seq $(ROUNDS)); do \
		(cd dist/base; test -e go.work || export GOWORK=off; $(GO) test -run '^$$' -bench . $(BENCHES)) >> dist/base.txt; \
		$(GO) test -run '^$$' -bench . $(BENCHES) >> dist/here.txt; \
	done
	git worktree remove --force dist/base
	$(GO) run $(BENCHSTAT) base=dist/base.txt here=dist/here.txt

# ONLY='overview|topics-1440' takes the pictures whose names match, SCENE=quiet or bad one of the two, OUT=DIR puts them
# there and leaves those of the documents alone.
.PHONY: screenshots
screenshots: OUT ?= dist/screenshots
screenshots: build ## take pictures of every page of the web admin on a quiet and a bad day, and those of the documents
	@scripts/install redis-server=redis-server chromium=chromium
	@fc-list :lang=zh | grep -q . || scripts/install a-font-for-chinese=fonts-wqy-microhei
	mkdir -p $(OUT)
	WAKECALL_TEST_BINARY=$(CURDIR)/$(BINARY) WAKECALL_SCREENSHOTS=$(abspath $(OUT)) \
		WAKECALL_PICTURES=$(if $(filter file,$(origin OUT)),$(CURDIR)/docs/screenshots) \
		WAKECALL_SCREENSHOTS_ONLY='$(ONLY)' WAKECALL_SCREENSHOTS_SCENE=$(SCENE) \
		$(GO) test -vet=off -count=1 -timeout 20m -run TestScreenshots ./test/

.PHONY: clean
clean: ## remove what the other targets made, but not ./data
	rm -rf bin dist cover.out

# Commands and the Debian packages that have them. The race detector needs a C compiler, the clients their languages
# and what builds their packages.
MAVEN := /usr/share/maven-repo/org/apache/maven/plugins
.PHONY: need-redis need-all
need-redis:
	@scripts/install redis-server=redis-server
need-all:
	@scripts/install redis-server=redis-server mariadbd=mariadb-server pg_createcluster=postgresql sqlite3=sqlite3 \
		beanstalkd=beanstalkd chromium=chromium gcc=gcc,libc6-dev git=git python3=python3 curl=curl openssl=openssl \
		promtool=prometheus php=php-cli node=nodejs javac=default-jdk-headless \
		pyproject-build=python3-build,python3-setuptools,python3-wheel,python3-pip mypy=mypy \
		npm=npm tsc=node-typescript composer=composer mvn=maven \
		$(MAVEN)/maven-compiler-plugin=libmaven-resources-plugin-java,libmaven-compiler-plugin-java,libsurefire-java \
		$(MAVEN)/maven-javadoc-plugin=libmaven-jar-plugin-java,libmaven-source-plugin-java,libmaven-javadoc-plugin-java
