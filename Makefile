# Two commands on a fresh machine: `make demo` runs the main job, `make test` checks the project.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test lint types unit wheels clean

demo: $(VENV)/demo.stamp
	PATH="$(CURDIR)/$(BIN):$$PATH" sh docs/demo.sh demo

test: lint types unit

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/test.stamp
	$(BIN)/mypy

unit: $(VENV)/test.stamp
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/demo.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --editable .
	-$(PIP) matplotlib
	touch $@

$(VENV)/test.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --editable '.[test]'
# A peer of which the Python part is enough; its own requirements would replace torch.
	-$(PIP) --no-deps torchaudio && rm -f $(VENV)/lib/python*/site-packages/torchaudio/lib/*.so
# PyTorch's CUDA packages bring it. It is large (0.2 GB to fetch); without it the tests of the fused kernels are skipped.
	-$(BIN)/python -c "import triton" 2>/dev/null || $(PIP) triton==3.6.0
	touch $@

# One wheel without the C libraries, for any platform, and one with them, for any Python 3 on this platform.
wheels: | $(VENV)/bin/python
	KALDI_COMPAT_NATIVE=0 $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	rm -rf build
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

clean:
	rm -rf $(VENV) demo build dist *.egg-info */native/_native.*
