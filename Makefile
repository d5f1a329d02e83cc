# Two commands on a fresh machine: `make demo` runs the main job, `make test` checks the project.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Python compiles what is imported, and keeps it; all else, compiled by pip, would take 0.1 GB more.
export PYTHONDONTWRITEBYTECODE :=
PIP_LOUD := $(BIN)/python -m pip install --disable-pip-version-check --no-compile --constraint constraints.txt
PIP := $(PIP_LOUD) --quiet
# The lines of pip that tell how far it is.
PROGRESS := awk '/^ *(Downloading|Building|Installing collected)/ { print substr($$0, 1, 100); fflush() }'
# PyTorch without CUDA, whose libraries take 5 GB. For a machine with a GPU: `make test TORCH_INDEX=`.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
# A failing command fails in a pipe, too.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
# The packages beside the product; a copy of the project may lack them.
PACKAGES := $(foreach folder,$(wildcard packages/*/pyproject.toml),--editable $(dir $(folder)))
# Processes that run tests: one more than there are cores, because some tests wait.
JOBS ?= $(shell $(PYTHON) -c "import os; print((os.cpu_count() or 1) + 1)")

# The tests that `make test` skips because they are costly or a library is not installed, one on a line.
SKIPPED := $(VENV)/skipped.txt
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup

.PHONY: demo test test-rest test-all test-product lint types unit quick generate docs wheels clean

demo: $(VENV)/demo.stamp
	PATH="$(CURDIR)/$(BIN):$$PATH" sh docs/examples/demo.sh demo

# mypy uses one core, and the tests use the others.
test: lint
	@$(MAKE) --no-print-directory -j 2 types unit

# Installs libraries that take 1.5 GB more, and runs the tests that `make test` skipped: costly tests, and those that need these libraries.
test-rest: $(VENV)/test-all.stamp
	@[ -e $(SKIPPED) ] || { echo "$(SKIPPED) is missing: run make test first, which lists the tests that it skips"; exit 1; }
	if [ -s $(SKIPPED) ]; then $(PYTEST) @$(SKIPPED); fi

test-all: test
	$(MAKE) test-rest

# For daily work: the quick tests of io_ark and kaldi_compat, without those of the pages, of the project and of packages/.
test-product: lint
	@$(MAKE) --no-print-directory -j 2 types quick

quick: $(VENV)/test.stamp
	$(PYTEST) --skip-costly -m 'not slow and not sweep' tests/io_ark tests/kaldi_compat tests/test_generated.py \
	  --deselect='tests/docs/test_examples.py::test_docstrings[kaldi_explain' \
	  --deselect='tests/docs/test_examples.py::test_docstrings[kaldi_standins' \
	  tests/docs/test_examples.py::test_docstrings

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/test.stamp
	$(BIN)/mypy $(if $(PACKAGES),,-p io_ark -p kaldi_compat)

unit: $(VENV)/test.stamp
	$(PYTEST) --skip-costly --list-skipped=$(SKIPPED)

# What type checkers and ctypes read (*.pyi, signatures.txt); a test fails when it is stale.
generate: $(VENV)/test.stamp
	$(BIN)/python -m tools.generate

# The documentation site, in docs/_build/html. A warning, such as a link to a page that does not exist, is an error.
docs: $(VENV)/docs.stamp
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html in a browser; howto/browser.html runs from a web server only: python3 -m http.server -d docs/_build/html"

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
	$(PIP) --editable . $(PACKAGES)
	-$(PIP) matplotlib
	touch $@

$(VENV)/docs.stamp: pyproject.toml constraints.txt setup.py | $(VENV)/torch.stamp
	@echo "Installing kaldi-compat with what builds the documentation"
	$(PIP) --editable '.[docs]' $(PACKAGES)
	touch $@

# Where the index cannot be reached, the next step takes PyTorch from the usual one, unless that has only the build with CUDA.
$(VENV)/torch.stamp: constraints.txt | $(VENV)/bin/python
	@echo "Installing PyTorch (0.2 GB to fetch)"
	$(if $(TORCH_INDEX),-$(PIP_LOUD) --retries 1 --no-deps --index-url $(TORCH_INDEX) torch | $(PROGRESS))
	@if [ "$(TORCH_INDEX)" ] && ! $(BIN)/python -c "import torch" 2>/dev/null; then \
	  $(PIP) --dry-run --report $(VENV)/torch.json torch && \
	  if grep -q '"name": "nvidia-' $(VENV)/torch.json; then \
	    echo "$(TORCH_INDEX) cannot be reached, and the package index has only PyTorch's build with CUDA, of several GB:"; \
	    echo "name another index, make TORCH_INDEX=URL, or take that build, make TORCH_INDEX="; exit 1; \
	  fi; \
	fi
	touch $@

$(VENV)/test.stamp: pyproject.toml constraints.txt setup.py $(wildcard packages/*/pyproject.toml) | $(VENV)/torch.stamp
	@echo "Installing kaldi-compat with the test tools and the libraries to compare with (0.2 GB to fetch, a minute)"
	$(PIP_LOUD) --editable '.[test]' $(PACKAGES) | $(PROGRESS)
# Tests of PyTorch itself, 0.1 GB.
	rm -rf $(VENV)/lib/python*/site-packages/torch/test $(VENV)/lib/python*/site-packages/torch/bin/*[Tt]est*
# A peer of which the Python part is enough; its own requirements would replace torch.
	-$(PIP) --no-deps torchaudio && rm -f $(VENV)/lib/python*/site-packages/torchaudio/lib/*.so
	touch $@

$(VENV)/test-all.stamp: $(VENV)/test.stamp
	@echo "Installing the large libraries that some tests need (0.6 GB to fetch, minutes)"
	$(PIP_LOUD) --editable '.[test-all]' $(PACKAGES) | $(PROGRESS)
	touch $@

clean:
	rm -rf $(VENV) demo build dist docs/_build docs/generated *.egg-info packages/*/*.egg-info io_ark/native/_native.* kaldi_compat/native/_native.*
