# npctl: `make demo` and `make test` need nothing but Go and make.
SHELL := /bin/bash
export CGO_ENABLED := 0
VERSION ?= $(shell git describe --tags --exact-match --dirty 2>/dev/null)
LDFLAGS := -s -w -X main.release=$(VERSION)
GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
DEADCODE := golang.org/x/tools/cmd/deadcode@v0.52.0
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
TAGS := integration,gearman,zuul,openstackclient
# Unit tests write to memory where possible, compilers to the usual directory. The order matters: the first needs the old TMPDIR.
UNIT := GOTMPDIR=$${TMPDIR:-/tmp} TMPDIR=$$(test/lib/tmpdir.sh) go test -timeout=30m $${RUN:+-run="$$RUN"}
# These packages start no goroutines of their own, or only processes. The daemon and the progress display in cmd/npctl do.
NO_RACE := cmd/npctl|config|drivers/qemu|inspect|packaging|plan|plan/.*|resources|resources/schema|test/.*|internal/(arrows|convert|doctest|hints|host|startup|syntax|text)
# Permutations of one sequence of steps execute at each point what other tests execute once; endless lists read many megabytes;
# counts of calls are the same without the race detector.
NO_RACE_TESTS := ^(TestKilledAnywhere|TestTenRebuildsWithEveryMishap|TestRebuildsWithRandomMishaps|TestHooksAndKills|TestKilledWhileAFailedAttemptIsCleared|TestKilledAtEachCommitOfASlot|TestEndlessListsAreErrors|TestKilledForgetIsRepeated|TestNodeOfAnUnlistedProviderKeepsItsRecord|TestFaultsOfABuildInstance|TestKilledDuringABuildInstance|TestKilledImportIsResumed|TestKilledImportThatIsTakenBack|TestKilledDuringAReturn|TestSlotsCostFewerCalls)$$|/^(Kills|ImageKills)$$|//^(Kills|ImageKills)$$
RACE_COMMANDS := Watch|Builder|Interrupt|Bars|Progress|Completion|Console|Sessions/(daemonstate|external|import_watch|interrupt|metastatic|request|state_zookeeper)

INTEGRATION := $(addprefix integration-,newcomer emulator clouds kubernetes external qemu arm64 completion images gearman zuul zuul-jobs \
	watch systemd zookeeper gerrit review openstack migration)

.PHONY: help build build-windows build-kubernetes test race check affected lint vuln fmt docs docs-check demo bench bench-uploads bench-zookeeper fuzz \
	clean peers openstack openstack-down integration integration-openstack-lab integration-gitea $(INTEGRATION)

help: ## show this list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-24s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo; echo "  PKG=./plan and RUN='^TestName\$$' before make limit test, race and affected to packages and tests; RUN also the integration targets."

build: ## build bin/npctl, one static binary
	go build -ldflags '$(LDFLAGS)' -o bin/npctl ./cmd/npctl

build-windows: ## build bin/npctl.exe, for build hosts with Windows
	GOOS=windows GOARCH=amd64 go build -ldflags '$(LDFLAGS)' -o bin/npctl.exe ./cmd/npctl

test: ## run the tests (no root, no network, no services)
	$(UNIT) $${PKG:-./...}

race: export CGO_ENABLED := 1
race: export NPCTL_SEEDS ?= 1
race: ## run the tests of packages with goroutines with the race detector (needs a C compiler)
	$(UNIT) -p=4 -vet=off -race -skip='$(NO_RACE_TESTS)' $${PKG:-$$(go list ./... | grep -vE '^github.com/npctl/npctl/($(NO_RACE))$$')}
	test -n "$$PKG$$RUN" || $(UNIT) -vet=off -race -run='$(RACE_COMMANDS)' ./cmd/npctl

affected: ## what a change can break: tests of the packages that depend on changed ones, and the names of their integration targets
	@test/affected.sh

check: lint vuln docs-check test race ## everything a change has to pass before review, except the integration targets

lint: ## golangci-lint (with gofmt and go vet), npctl for Windows and macOS, functions that nothing calls; counts the lines of npctl
	go run ./test/platforms windows/amd64 darwin/arm64
	go run $(GOLANGCI) run --build-tags $(TAGS) ./...
	@dead=$$(GOGC=400 go run $(DEADCODE) -test -tags $(TAGS) ./...) && test -z "$$dead" || { echo "$$dead"; exit 1; }
	@test/lines.sh

vuln: ## govulncheck, where its database can be reached
	@if curl -fsI -m 10 https://vuln.go.dev/index/modules.json >/dev/null 2>&1; then go run $(GOVULNCHECK) ./...; \
	else echo 'vuln: the vulnerability database at https://vuln.go.dev cannot be reached from here; not checked'; fi

fmt: ## format Go and HCL
	gofmt -w .
	go run ./cmd/npctl fmt -recursive examples

docs: build ## write the generated pages of docs/
	bin/npctl docs > docs/configuration.md

docs-check: build ## fail when a generated page is out of date
	@bin/npctl docs | diff -u docs/configuration.md - || { echo 'docs/configuration.md is out of date: run make docs'; exit 1; }

demo: build ## plan, apply, plan again, change, destroy: on the sandbox cloud
	./examples/demo.sh bin/npctl

bench: ## the benchmarks behind docs/performance.md
	go test -run '^$$' -bench . -benchmem ./plan/... ./config ./state/bolt ./reconcile ./drivers/openstack ./internal/imagefile ./watch ./cmd/npctl

fuzz: ## fuzz the loader, the state file, gearman and npctl convert for a minute each
	go test -run '^$$' -fuzz FuzzLoad -fuzztime 60s ./config
	go test -run '^$$' -fuzz FuzzTestFile -fuzztime 60s ./config
	go test -run '^$$' -fuzz FuzzJSON -fuzztime 60s -fuzzminimizetime 10x ./config
	go test -run '^$$' -fuzz Fuzz -fuzztime 60s ./state/bolt
	go test -run '^$$' -fuzz FuzzPacket -fuzztime 60s ./internal/gearman
	go test -run '^$$' -fuzz FuzzRequests -fuzztime 60s ./builders/gearman
	go test -run '^$$' -fuzz FuzzConvert -fuzztime 60s ./internal/convert

bench-uploads: build ## uploads against dd and the openstack client (installs the client into a temporary venv)
	./test/bench/uploads.sh
	./test/clouds/run.sh -run '^$$' -bench Upload -benchtime 5x

bench-zookeeper: build ## npctl watch against a real nodepool-launcher on ZooKeeper (as root; installs Debian packages, and nodepool into a venv)
	./test/zookeeper/bench.sh

integration: $(INTEGRATION) ## all integration targets

integration-newcomer: ## the README's two commands on a minimal Debian, as an unprivileged user (as root; installs mmdebstrap)
	./test/newcomer/run.sh

integration-clouds: build ## the drivers aws, azure, gce and ibmvpc with moto, Azurite and gcplocal, and npctl with them (installs them with pip and npm)
	./test/clouds/run.sh

integration-arm64: ## make demo with npctl for arm64, in qemu (as root, Debian 12; installs qemu-user-static)
	./test/arm64/run.sh

integration-emulator: ## the real openstack client against the emulator of OpenStack (installs it into a temporary venv)
	./test/emulator/run.sh

integration-completion: ## completion in real bash, zsh and fish (as root; installs Debian packages)
	./test/completion/run.sh

integration-images: build ## diskimage-builder and qemu-img (as root; installs Debian packages)
	./test/dib/run.sh

integration-gearman: build ## gearmand, stunnel and Python's gear (as root; installs Debian packages)
	./test/gearman/run.sh

integration-zuul: build ## a real zuul-web (as root; installs Debian packages, and zuul into a venv)
	./test/zuul/run.sh

integration-zuul-jobs: build ## a whole Zuul with Ansible, whose jobs run on machines of npctl watch (as root; installs Debian packages, Zuul and Ansible)
	./test/zuul/whole/run.sh

integration-migration: build ## the move from a real Nodepool on a real OpenStack, while jobs of a real Zuul run (as root, Debian 12; installs packages)
	./test/migration/run.sh

integration-watch: build ## npctl watch as a process, with real sshd and ssh (as root; installs Debian packages)
	./test/watch/run.sh

integration-systemd: build ## the units in packaging/systemd on a real systemd (as root; installs Debian packages)
	./test/systemd/run.sh

integration-kubernetes: build-kubernetes ## the API server of Kubernetes, kubectl, a class of Zuul, Nodepool's driver (as root; installs Debian packages, and both into venvs)
	./test/kubernetes/run.sh

build-kubernetes: ## the API server and controllers of Kubernetes below the temporary directory, if the sources have changed
	./test/kubernetes/build.sh

integration-zookeeper: build ## a real ZooKeeper, Zuul's own classes, nodepool-launcher (as root; installs Debian packages, and both into venvs)
	./test/zookeeper/run.sh

integration-gerrit: build ## npctl review with a real Gerrit (as root; installs Debian packages, and Gerrit from Maven Central)
	./test/gerrit/run.sh

integration-review: build ## requests and documents of npctl review against published descriptions (fetches them with npm and go)
	./test/review/run.sh

integration-external: build ## npctl killed at every call of the reference driver program (installs nothing)
	./test/external/run.sh

integration-qemu: build ## virtual machines of the real QEMU, without KVM (as root, Debian 12; installs packages)
	./test/qemu/run.sh

integration-openstack: build ## real OpenStack services on loopback (as root, Debian 12; installs packages, starts services)
	./test/openstack/run.sh

peers: ## install the packages and Python environments of the integration targets (as root, Debian 12)
	./test/peers.sh

openstack: ## start the OpenStack of the integration targets, which then use it and leave it running (as root, Debian 12)
	./test/openstack/up.sh

openstack-down: ## stop and delete it
	./test/openstack/down.sh --purge

integration-gitea: build ## npctl review with a real Gitea, after a change of it (builds Gitea at the first run: 5 minutes, needs a C compiler)
	./test/gitea/run.sh

integration-openstack-lab: ## the lab of integration-openstack itself, after a change of it (as root, Debian 12)
	./test/openstack/run.sh --lab

clean: ## remove what make built
	rm -rf bin
