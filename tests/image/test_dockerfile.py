"""What the Dockerfile says, by reading it: nothing unpinned, nothing but the environment in the image."""

import tomllib

import pytest
import yaml

from tests.image.dockerfile import ROOT, Ignored, absolute_paths, context, parse

DOCKERFILE = parse((ROOT / "Dockerfile").read_text())
CHART = ROOT / "charts" / "ascend-owner-guard"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_every_package_comes_by_its_hash_and_as_a_wheel() -> None:
    runs = [one.text for stage in DOCKERFILE.stages for one in stage.of("RUN")]
    installs = [part for run in runs for part in run.split("&&") if " install" in part]
    assert installs
    for install in installs:
        assert "--no-index" in install or ("--require-hashes" in install and "--only-binary=:all:" in install)


def test_a_base_is_pinned_by_its_tag_slim_and_may_be_named_by_its_digest() -> None:
    assert {stage.base for stage in DOCKERFILE.stages} == {DOCKERFILE.arguments["PYTHON_IMAGE"]}
    repository, _, tag = DOCKERFILE.arguments["PYTHON_IMAGE"].partition(":")
    assert repository == "python"
    assert tag.startswith("3.13-slim-")


def test_the_steps_stay_in_paths_that_the_dockerfile_makes() -> None:
    own = tuple(DOCKERFILE.own_paths())
    for stage in DOCKERFILE.stages:
        for run in stage.of("RUN"):
            assert [path for path in absolute_paths(run.text) if not path.startswith(own)] == []


def test_the_image_gets_the_environment_and_runs_nothing_when_it_is_built() -> None:
    assert DOCKERFILE.final.of("RUN") == []
    assert [one.text for one in DOCKERFILE.final.of("COPY")] == [
        "--from=builder /opt/ascend-owner-guard /opt/ascend-owner-guard"
    ]


def test_it_runs_as_the_charts_user_and_on_the_charts_port() -> None:
    template = (CHART / "templates" / "server.yaml").read_text()
    user, group = DOCKERFILE.final.of("USER")[-1].text.split(":")
    assert f"runAsUser: {user}, runAsGroup: {group}" in template
    assert user != "0"
    assert f"containerPort: {DOCKERFILE.final.of('EXPOSE')[0].text}" in template


def test_probes_belong_to_the_kubelet() -> None:
    assert [one.text for one in DOCKERFILE.final.of("HEALTHCHECK")] == ["NONE"]


def test_image_chart_and_project_have_one_version() -> None:
    version = next(one.pairs["VERSION"] for one in DOCKERFILE.final.of("ARG") if "VERSION" in one.pairs)
    assert version == PROJECT["version"]
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == version
    assert f"IMAGE ?= {PROJECT['name']}:{version}\n" in (ROOT / "Makefile").read_text()


def test_the_labels_are_those_of_the_open_container_initiative() -> None:
    labels = {name: value for one in DOCKERFILE.final.of("LABEL") for name, value in one.pairs.items()}
    assert all(name.startswith("org.opencontainers.image.") for name in labels)
    assert labels["org.opencontainers.image.title"] == PROJECT["name"]
    assert labels["org.opencontainers.image.licenses"] == PROJECT["license"]
    assert labels["org.opencontainers.image.version"] == "${VERSION}"


def test_what_reaches_the_build_is_what_it_copies() -> None:
    files = context()
    copied = {word for stage in DOCKERFILE.stages for one in stage.of("COPY") for word in one.words[:-1]}
    assert {name.partition("/")[0] for name in files} == {word for word in copied if not word.startswith(("-", "/"))}
    assert "webhook/cli/main.py" in files
    assert "webhook/sample_cluster/nodes.yaml" in files
    assert [name for name in files if "__pycache__" in name or name.endswith((".pyc", ".key"))] == []


@pytest.mark.parametrize(
    "path, kept_out",
    [
        (".git/config", True),
        (".venv/bin/python", True),
        ("tests/conftest.py", True),
        ("webhook/cli/main.py", False),
        ("webhook/cli/__pycache__/main.cpython-313.pyc", True),
        ("certs/demo/tls.key", True),
        ("requirements.lock", False),
        ("requirements-dev.lock", True),
    ],
)
def test_what_the_dockerignore_keeps_out(path: str, kept_out: bool) -> None:
    assert (path in Ignored((ROOT / ".dockerignore").read_text())) is kept_out


def test_an_instruction_that_nobody_proves_is_refused() -> None:
    with pytest.raises(ValueError, match="ADD"):
        parse("FROM scratch\nADD x y\n")
