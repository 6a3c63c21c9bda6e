# Everyday commands; `make` alone lists them. Builds go through the presets of CMakePresets.json into
# build/PRESET, so that an IDE and these commands share their results.
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test deps build-deps lint format dev asan tsan clang release headers tidy bench clean

LOCKSTEP := build/release/bin/lockstep
DEMO_CONFIG := examples/configs/mnist_cnn.toml
DEMO_DIR := runs/demo
DEMO_FLAGS := --devices cpu:2 --epochs 1 --summary $(DEMO_DIR)/summary.json
# What `make tidy` checks: the sources that differ from this commit.
TIDY_BASE ?= main

help: ## list these commands
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | \
	  while IFS="$$(printf '\t')" read -r name what; do printf '  make %-8s %s\n' "$$name" "$$what"; done

demo: build-deps release ## install what is missing, build, train the MNIST CNN on two devices
	@mkdir -p $(DEMO_DIR)
	$(LOCKSTEP) train $(DEMO_CONFIG) $(DEMO_FLAGS)
	@echo
	@echo "Summary of the run:    $(DEMO_DIR)/summary.json"
	@echo "The model and its run: $(DEMO_CONFIG)"

test: deps lint ## install what is missing, lint, build, run all tests
	cmake --workflow --preset test

lint: ## check layers, fences, sizes, wording and format (seconds)
	python3 scripts/lint_test.py
	python3 scripts/lint.py --format

format: ## let clang-format write all sources
	git ls-files -z -co --exclude-standard -- '*.h' '*.cc' | xargs -0 -r -n 50 -P 2 clang-format -i

release: ## build the program and the examples
	cmake --workflow --preset release

dev: ## build and run all tests, each source by itself: quick after small changes
	cmake --workflow --preset dev

asan: ## build and run the fast tests and fuzz targets with clang's address and undefined-behaviour sanitizers
	cmake --workflow --preset asan

tsan: ## build and run the tests that use threads with the thread sanitizer
	cmake --workflow --preset tsan

clang: ## build and run the fast tests with clang, without sanitizers
	cmake --workflow --preset clang

headers: ## compile every public header alone
	cmake --preset clang
	cmake --build --preset clang --target all_verify_interface_header_sets

tidy: ## run clang-tidy on the sources that differ from TIDY_BASE (main); slow, 10 s a file
	cmake --preset clang
	git diff -z --name-only --diff-filter=d $(TIDY_BASE) -- 'lockstep/*.cc' ':!*_test.cc' | \
	  xargs -0 -r -n 1 -P 2 clang-tidy --quiet -p build/clang

bench: release ## measure a training step on this machine
	$(LOCKSTEP) bench step
	cmake --build --preset release --target session_bench
	build/release/bin/session_bench

deps: ## install the missing Debian packages, of the tests too
	@scripts/install_deps.sh --tests

build-deps:
	@scripts/install_deps.sh

clean: ## remove what was built
	rm -rf build
