# The two commands a newcomer needs are `make run` and `make test`; each does all of its own set-up.
# Everything runs on the Node that the npm package `node` brings, whatever Node the machine has.
export PATH := $(CURDIR)/node_modules/.bin:$(PATH)
.DEFAULT_GOAL := help
INSTALLED := node_modules/.package-lock.json
LOCKED := $(if $(shell command -v flock),flock package.json)

.PHONY: help run test check watch generate bench bundle image e2e gitops cluster chaos upgrade soak isolation pair site clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' Makefile

# Two `make` at once in a fresh checkout install once, where the machine has flock.
$(INSTALLED): package.json package-lock.json
	@echo "Installing dependencies (a minute or less, once)"
	@$(LOCKED) sh -ec '[ -z "$$(find package.json package-lock.json -newer $@ 2>&1)" ] || npm ci --no-progress --loglevel=error; touch $@'

run: $(INSTALLED) ## Serve samples/quickstart on this machine, no cluster needed (ARGS="DIR --host ...")
	@exec bin/portico run $(ARGS)

test: $(INSTALLED) ## All tests, bringing what they need and the machine lacks beside them (ARGS="gateway registry" for some)
	@node test/run.ts $(ARGS)

check: $(INSTALLED) ## Types, lint, import arrows, generated files fresh (ALL=1 for floating promises and nesting, too)
	@ALL=$(ALL) node check/run.ts

watch: $(INSTALLED) ## Tests that run again when a file changes (ARGS="gateway/call")
	@node test/watch.ts $(ARGS)

generate: $(INSTALLED) ## Rewrite generated files (CRDs)
	@node check/generate.ts

bench: $(INSTALLED) ## Benchmarks, each a ratio in one run (ARGS="gateway")
	@node bench/run.ts $(ARGS)

pair: $(INSTALLED) ## Costs of this checkout beside another one and bench/reference.json (BEFORE=DIR ARGS="gateway registry render")
	@node bench/pair/run.ts $(BEFORE) $(ARGS)

site: $(INSTALLED) ## dist/site: the documentation as a static site with search, opened without a server (REFS="v0.1 v0.2" for versions side by side)
	@node site/build.ts

bundle: $(INSTALLED) ## dist/: what the npm package and the image ship
	@node build/bundle.ts

image: bundle ## Container image, by docker, podman or buildah; without one of them as dist/image/portico.tar
	@node build/image/make.ts $(ARGS)

e2e: bundle ## A whole Kubernetes node and the tests on it; needs root on Linux (ARGS="registry" for some, K8S=1.29 for the oldest, 1.36 for the one before the newest)
	@node test/e2e/run.ts $(ARGS)

gitops: bundle ## Argo CD and Flux on a node sync the samples, heal them, and write nothing while they idle (GITOPS_SECONDS=600 for ten minutes; root)
	@TEST_FILES='test/e2e/gitops/*.gitops.ts' TEST_HANG_MS=7200000 node test/e2e/run.ts

cluster: $(INSTALLED) ## A real Kubernetes control plane for development; prints its kubeconfig (K8S=1.29 for the oldest, 1.36 for the one before the newest)
	@node test/cluster/support/serve.ts

chaos: bundle ## Twelve minutes of cut connections and killed processes under changes: a control plane, then a node (CHAOS_SECONDS=600; root)
	@TEST_FILES=test/cluster/operator/chaos.ts CHAOS_SECONDS=120 TEST_HANG_MS=600000 node test/run.ts
	@CHAOS_SECONDS=$(or $(CHAOS_SECONDS),600) TEST_HANG_MS=3600000 node test/e2e/run.ts chaos

upgrade: $(INSTALLED) ## From another checkout's operator to this one's: no pod may restart (BEFORE=DIR)
	@node test/cluster/upgrade/run.ts $(BEFORE)

isolation: $(INSTALLED) ## Three minutes in which two hundred users, each with credentials of their own, must not meet (SEEDS="1 2 3")
	@for seed in $(or $(SEEDS),1 2 3); do ISOLATION_SECONDS=60 ISOLATION_SEED=$$seed node test/run.ts credentials/isolation || exit 1; done

soak: $(INSTALLED) ## Ten minutes of use of a gateway, then attacks on it and on a registry; fails unless memory stays and others are served
	@node test/soak/soak.ts $(ARGS)
	@node test/soak/hostile/hostile.ts
	@node test/soak/hostile/registry.ts

clean:
	rm -rf node_modules dist .portico .cache
