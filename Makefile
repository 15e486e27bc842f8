# Everything a person or a machine runs. `make install` and `make run` need Python >= 3.11 and nothing else;
# `make test` also needs Go, which builds the control plane once into the user's cache folder.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: install run test test-unit race claim-check test-kind image image-check sbom audit lint controlplane lock clean

install: $(VENV)/.installed

$(VENV)/.installed: requirements.lock requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed, this is " + sys.version.split()[0] + ". Name another one: make PYTHON=python3.12 install")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

run: install
	$(BIN)/ascend-guard serve --demo

controlplane:
	@$(PYTHON) -m tests.controlplane.build

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint Dockerfile

test-unit: lint
	$(BIN)/pytest -m "not integration and not image"

# Two modules at a time: most of them wait for a control plane of their own. JOBS=0 runs them one by one.
test: lint controlplane
	PYTHONHASHSEED=0 $(BIN)/pytest -n $(or $(JOBS),2) --dist loadfile

# More pairs of simultaneous changes than `make test` runs: make race N=10000.
race: install controlplane
	N=$(or $(N),500) $(BIN)/pytest -s --timeout=0 tests/integration/test_races.py

# Every interleaving of three requests over the claim's own transitions; `make test` walks those of two.
claim-check: install
	CLAIM_CHECK=1 $(BIN)/pytest -s --timeout=0 tests/claim

# The same end-to-end tests with the image in a kind cluster (Docker, and Go to build kind once): every test that breaks
# nothing in the control plane.
test-kind: install
	@$(BIN)/python -m tests.kind.engine
	@$(PYTHON) -m tests.controlplane.build kind kubectl helm kwok
	$(MAKE) image
	$(BIN)/pytest --cluster=kind --timeout=1800 tests/integration

# The image that the chart runs; every file of ours in it bears the time of the last commit.
IMAGE ?= ascend-owner-guard:0.1.0
image:
	@docker info >/dev/null 2>&1 || { echo "No Docker engine answers, so the image cannot be built; \`make image-check\` proves the Dockerfile's steps without one." >&2; exit 1; }
	BUILDX_NO_DEFAULT_ATTESTATIONS=1 docker build --build-arg SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) --build-arg REVISION=$$(git rev-parse HEAD) --tag $(IMAGE) .

# The Dockerfile's steps without Docker, twice: both builds must be the same to the bit. `make test` runs them once.
image-check: install
	$(BIN)/hadolint Dockerfile
	IMAGE_TWICE=1 $(BIN)/pytest tests/image

# What the image installs, as a CycloneDX bill of materials.
sbom: install
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m tests.image.sbom build/sbom.cdx.json

# Known vulnerabilities of the locked packages, by the network's vulnerability service. Silence is no good news: exit
# code 1 some are vulnerable, 2 not every package could be asked about. make audit OPTIONS=--vulnerability-service=osv
audit: install
	$(BIN)/python -m tests.image.audit $(OPTIONS)

# The lock files carry hashes and no index address. Run after a change of the dependencies in pyproject.toml.
lock:
	$(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-header --output-file requirements.lock pyproject.toml
	$(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-header --extra dev --output-file requirements-dev.lock pyproject.toml
	$(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-header --only-build-deps --build-deps-for wheel --output-file requirements-build.lock pyproject.toml

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info
