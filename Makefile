# contend: build, test and measure. Building needs Go alone; the rest installs what it needs.

BIN := bin/contend
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null)
# The hand-over experiment's flags; EXPERIMENT='--quick -o DIR' for a smoke.
EXPERIMENT ?= -o reports/handover --force
# The listener experiment's and sweep's flags.
LISTENER ?= -o reports/listener --force
# The checkpoint experiments' flags.
CHECKPOINT ?= --pairs 6 --aa 0 --force
SWEEP ?= --vary callback=0s,500ns,2us,20us --vary locked=true,false --window 400ms --rounds 4
# Time for each fuzzer, how many at a time, and which: a pattern over package.Name, empty for all.
FUZZTIME ?= 10m
FUZZJOBS ?= 1
FUZZONLY ?=
# Rounds of bench-cost: more narrow its intervals.
COST_ROUNDS ?= 6
# What the tests need beside Go: a browser for the page. Root on Debian or Ubuntu
# gets it installed; elsewhere the tests say what is missing.
apt = command -v $(1) >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(2) >/dev/null; }

.PHONY: matrix help build test test-race lint generate check-generated page bench experiment listener listener-sweep checkpoint checkpoint-sweep reports clean bench-large bank error-rates fuzz brokers bench-symbolize lock-names soak-attach bench-cost

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

# Without cgo, a recorder gives up the privileges that it no longer needs once it has attached.
build: ## build bin/contend
	CGO_ENABLED=0 go build -ldflags "-X main.version=$(VERSION)" -o $(BIN) ./cmd/contend

# One package at a time: live tests measure, and would disturb each other.
test: build ## run the whole test suite, BPF and browser included
	@$(call apt,chromium,chromium)
	CONTEND_REQUIRE_BPF=1 CONTEND_REQUIRE_BROWSER=1 go test -p 1 -shuffle=on -timeout 15m ./...
	$(MAKE) test-race

test-race: ## run the concurrent packages' tests under the race detector
	go test -race -shuffle=on -timeout 10m ./internal/handover/... ./internal/workload/... ./internal/experiment/... ./internal/collect/endpoint/...

lint: ## gofmt, vet, staticcheck
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "gofmt would change:"; echo "$$out"; exit 1; }
	go vet ./...
	go tool staticcheck ./...

generate: ## compile the BPF objects (needs Debian's clang-19, llvm-19, libbpf-dev)
	@$(call apt,clang-19,clang-19 llvm-19 libbpf-dev)
	go generate ./bpf

check-generated: ## the committed BPF objects are what their sources compile to
	@$(MAKE) --no-print-directory generate
	@git diff --exit-code --stat -- bpf || { echo "bpf/ is not what its sources compile to: run make generate and commit"; exit 1; }

page: ## bundle the report page's script (needs Node)
	cd internal/analyze/render/page && npm ci --no-audit --no-fund && npm run build

bench: ## run the benchmarks, six times each, for benchstat
	go test -run '^$$' -bench . -benchmem -count 6 ./internal/...

bench-large: build ## measure contend and go tool pprof on large profiles, write reports/large-inputs.md
	go build -o bin/trials ./cmd/trials
	bin/trials large -n 3 -o reports/large-inputs.md

fuzz: ## run every parser's fuzzer for FUZZTIME (10m) each, FUZZJOBS (1) at a time, write reports/fuzz.md
	nice -n 15 go run ./cmd/trials fuzz -time $(FUZZTIME) -jobs $(FUZZJOBS) -only '$(FUZZONLY)'

bench-symbolize: ## measure contend's symbols and lock names on a 100 MB binary beside go tool pprof and addr2line, write reports/symbolize.md
	@$(call apt,addr2line,binutils)
	@$(call apt,llvm-addr2line,llvm)
	go build -o bin/trials ./cmd/trials
	bin/trials symbolize -n 3 -o reports/symbolize.md

lock-names: build ## record real brokers, whole and stripped, and list what their locks are called, write reports/lock-names.md (root)
	go run ./cmd/trials locknames -window 4s -o reports/lock-names.md

bench-cost: build ## measure what contend and its peers cost a target, write reports/cost.md (root; installs bpftrace and libbpf-tools)
	@$(call apt,bpftrace,bpftrace)
	@$(call apt,offcputime,libbpf-tools)
	go build -o bin/trials ./cmd/trials
	bin/trials cost -rounds $(COST_ROUNDS) -o reports/cost.md

bank: build ## record the bank of real pairs that the error rates in CI are drawn from (root)
	go run ./cmd/trials bank -rounds 10 -o internal/trial/testdata/bank

error-rates: build ## run 40 live A/A experiments and 40 with a longer hold, write reports/error-rates.md (root; resumes)
	go run ./cmd/trials live -n 40 -rounds 8 -window 400ms
	go run ./cmd/trials report -o reports/error-rates.md

# Flags of the matrix: MATRIX=-fetch lets the go command fetch toolchains that are not at hand.
MATRIX ?=

matrix: ## record one target built by every Go in every way, hold it to its design, write reports/matrix.md (root; resumes)
	go run ./cmd/trials matrix $(MATRIX)

brokers: build ## record real brokers under load beside their own block profiles, write reports/brokers.md (root)
	go run ./cmd/trials brokers -window 10s -o reports/brokers.md

soak-attach: build ## attach 1,000 times, kill 50 recorders, look what is left; reports/attach.md (root, ten minutes)
	go run ./cmd/trials soak

experiment: build ## run the ledger hand-over in both arms, record, compare, write reports/handover/
	$(BIN) experiment handover $(EXPERIMENT)

listener: build ## run the listener hand-over in all arms, record, compare, write reports/listener/
	$(BIN) experiment listener $(LISTENER)
	$(BIN) diff reports/listener/C reports/listener/D --profile offcpu --rules reports/listener/rules.yaml --format svg -o reports/listener/wakeups.svg

listener-sweep: build ## run its arms over callback work, on threads and on goroutines; reports/listener/sweep.md
	@mkdir -p reports/listener
	$(BIN) sweep listener $(SWEEP) > reports/listener/sweep.md.new
	@{ printf '# The listener hand-over over callback work, on OS threads and on goroutines\n\n'; \
	printf 'Medians (range) over rounds of every arm in random order; figures are per message but for the highest marks; times in ns.\n\n    contend sweep listener $(SWEEP)\n\n'; \
	cat reports/listener/sweep.md.new; } > reports/listener/sweep.md && rm reports/listener/sweep.md.new

checkpoint: build ## run the checkpoint triggers past saturation, then with savepoints; reports/checkpoint-*/
	$(BIN) experiment checkpoint --arms perpipeline,shared,lanes --body 20ms $(CHECKPOINT) -o reports/checkpoint-overload
	$(BIN) experiment checkpoint --arms savepoint,savepointfixed --window 6s --holders exact $(CHECKPOINT) -o reports/checkpoint-savepoints
	$(BIN) report reports/checkpoint-savepoints/savepoint --profile holders --format svg -o reports/checkpoint-savepoints/savepoint.svg

checkpoint-sweep: build ## run its arms over pipelines, bodies, loads and threads (13 minutes); reports/checkpoint/
	$(BIN) sweep checkpoint-report -o reports/checkpoint

reports: ## render the committed experiments again
	UPDATE_REPORTS=1 go test -count 1 -run TestCommitted ./cmd/contend ./internal/experiment

clean: ## remove what was built
	rm -rf bin
