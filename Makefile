# What there is to run, beside the go command. internal/testing/harness/NOTES.md says what
# each target shows, and how long it takes.

GO       ?= go
SEEDS    ?= 0-99999
FUZZTIME ?= 10m

.PHONY: help check test race torture kills damage disk owners bombs arguments remote postgres databases simulate planted fuzz

help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 12

check: ## what must pass before a change goes in: some 35 minutes on two cores
	.ci/run

test: ## all tests, quick: every kind of fault once
	$(GO) test ./...

race: ## all tests, quick, with the race detector
	$(GO) test -race ./...

torture: kills damage disk owners bombs arguments planted remote postgres databases simulate fuzz ## the release figures of every fault: many hours

kills damage disk owners bombs arguments remote postgres databases simulate planted: export PAWL_TEST = release

kills: ## SIGKILL at every hit of every failpoint
	$(GO) test ./internal/testing/crashtest -v -timeout 6h
	$(GO) test ./internal/testing/crashtest -v -timeout 6h -crash.disk -crash.seed 2
	$(GO) test ./internal/scheduling -run '^TestKills$$' -v -timeout 6h

damage: ## power loss, torn logs, flipped bits, files of others
	$(GO) test ./internal/testing/damagetest -v -timeout 6h

disk: ## full disks, I/O errors and kills at every system call, descriptors
	$(GO) test ./internal/testing/disktest -v -timeout 6h

owners: ## two processes and two engines on one directory, clocks, shutdowns
	$(GO) test ./internal/testing/ownertest -v -timeout 6h

bombs: ## limits, hostile names and texts, runs without end
	$(GO) test ./internal/testing/bombtest -v -timeout 6h

arguments: ## every exported function with many odd arguments
	$(GO) test ./internal/testing/zerotest -v -timeout 6h

remote: ## directories whose commits a log outside keeps: 100,000 seeds, then nodes and NATS servers that are harmed
	$(GO) test . ./cluster -run 'Remote|Faults' -v -timeout 24h
	$(GO) test -C nats/test -v -timeout 24h ./...

postgres: ## nodes and a PostgreSQL server that are killed: 300 and 100 times
	$(GO) test -C pg -v -timeout 6h . ./examples/...

databases: ## 1,000 kills of hosts and servers whose transactions start runs
	$(GO) test -C pawlsql/test -run Kills -v -timeout 2h .

simulate: ## the seeds SEEDS of the simulator
	$(GO) test ./internal/testing/simulator -v -timeout 24h -sim.seed $(SEEDS)

planted: ## plant known bugs in a copy; every one must be caught
	$(GO) test ./internal/testing/planted -v -timeout 1h

fuzz: ## every fuzz target, FUZZTIME each, two at a time
	$(GO) run ./internal/testing/fuzzall -time $(FUZZTIME)
