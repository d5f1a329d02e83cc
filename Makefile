# Two commands on a fresh machine: `make demo` runs the main job, `make test` checks the project.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_LOUD := $(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt
PIP := $(PIP_LOUD) --quiet
# A failing command fails in a pipe, too.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
# Processes that run tests: one for each core.
JOBS ?= auto

.PHONY: demo test test-all lint types unit generate docs wheels clean

demo: $(VENV)/demo.stamp
	PATH="$(CURDIR)/$(BIN):$$PATH" sh docs/demo.sh demo

test: lint types unit

# The same with the libraries that take 1.5 GB more, so that fewer tests are skipped.
test-all: $(VENV)/test-all.stamp test

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/test.stamp
	$(BIN)/mypy

unit: $(VENV)/test.stamp
	PATH="$(CURDIR)/$(BIN):$$PATH" OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup

# What type checkers and ctypes read (*.pyi, signatures.txt); a test fails when it is stale.
generate: $(VENV)/test.stamp
	$(BIN)/python -m generate

# The documentation site, in docs/_build/html. A warning, such as a link to a page that does not exist, is an error.
docs: $(VENV)/docs.stamp
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html in a browser."

# A wheel with the C libraries for this platform, and one without for all others.
wheels: $(VENV)/bin/python
	$(PIP) build
	rm -rf build dist
	$(BIN)/python -m build --wheel --outdir dist
	rm -rf build
	KALDI_COMPAT_NATIVE=0 $(BIN)/python -m build --wheel --outdir dist
	ls dist

$(VENV)/bin/python:
	@echo "Making a virtual environment in $(VENV)"
	$(PYTHON) -m venv $(VENV)

# Needs neither torch nor a compiler (without one the features are computed by NumPy, more slowly).
$(VENV)/demo.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing kaldi-compat with NumPy"
	$(PIP) --editable .
	-$(PIP) matplotlib
	touch $@

$(VENV)/docs.stamp: pyproject.toml constraints.txt setup.py | $(VENV)/bin/python
	@echo "Installing kaldi-compat with PyTorch and what builds the documentation"
	$(PIP) --editable '.[docs]'
	touch $@

# The lines of pip that tell how far it is.
PROGRESS := awk '/^ *(Downloading|Building|Installing collected)/ { print substr($$0, 1, 100); fflush() }'

$(VENV)/test.stamp: pyproject.toml constraints.txt setup.py | $(VENV)/bin/python
	@echo "Installing kaldi-compat with PyTorch, the test tools and the libraries to compare with (0.5 GB to fetch, minutes)"
	$(PIP_LOUD) --editable '.[test]' | $(PROGRESS)
# A peer of which the Python part is enough; its own requirements would replace torch.
	-$(PIP) --no-deps torchaudio && rm -f $(VENV)/lib/python*/site-packages/torchaudio/lib/*.so
	touch $@

$(VENV)/test-all.stamp: $(VENV)/test.stamp
	@echo "Installing the large libraries that some tests need (0.6 GB to fetch, minutes)"
	$(PIP_LOUD) --editable '.[test-all]' | $(PROGRESS)
	touch $@

clean:
	rm -rf $(VENV) demo build dist docs/_build docs/generated *.egg-info io_ark/native/_native.* kaldi_compat/native/_native.*
