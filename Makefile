# make build        set up .venv and build attention: lowered, compiled for every target, verified, written
# make test         the test suite
# make test-full    the test suite with the long tests, and all cases of every shipped spec
# make lint         ruff and mypy
# make generated    rebuild every shipped spec into generated/
# None of these needs a GPU.

PYTHON ?= python3
EXTRAS ?= test,cu13
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SPECS := $(shell grep -l '^kernel:' specs/*.yaml)

.PHONY: build test test-full lint generated clean

build: $(READY)
	$(BIN)/kgen build specs/flash_attn.yaml

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-full: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadfile --long
	set -e; for spec in $(SPECS); do $(BIN)/kgen verify --full $$spec; done

lint: $(READY)
	$(BIN)/ruff check dsl tests
	$(BIN)/mypy

generated: $(READY)
	set -e; for spec in $(SPECS); do $(BIN)/kgen build $$spec; done

# Made again when what it is made from changes.
$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[$(EXTRAS)]"
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
