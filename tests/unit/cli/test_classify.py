"""`ascend-guard classify`: what a manifest is, in words, and whether it agrees with its header."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from webhook.cli.classify import Classification, classify_file, read_header
from webhook.cli.main import main
from webhook.ownership.settings import Settings

CHIPS = {"name": "c", "image": "x", "resources": {"limits": {"huawei.com/Ascend910": "8"}}}
FOLDER = {"name": "v", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}


def pod(container: dict[str, Any], namespace: str = "team-a", **spec: Any) -> dict[str, Any]:
    body = {"containers": [{"name": "c", "image": "x", **container}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": namespace}, "spec": body}


def of_kind(kind: str, spec: dict[str, Any], api_version: str = "apps/v1") -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "any", "namespace": "team-a"}, "spec": spec}


def asks(*names: str) -> dict[str, Any]:
    return {"resources": {"limits": dict.fromkeys(names, "1")}}


def mounts(path: str) -> dict[str, Any]:
    return {"volumes": [{"name": "v", "hostPath": {"path": path}}]}


MOUNT: dict[str, Any] = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
PRIVILEGED: dict[str, Any] = {**MOUNT, "securityContext": {"privileged": True}}
IDS: dict[str, Any] = {"env": [{"name": "ASCEND_VISIBLE_DEVICES", "value": "0"}]}
TREE = "/usr/local/Ascend/driver"


def classified(folder: Path, *documents: dict[str, Any], header: str = "") -> Classification:
    file = folder / "any.yaml"
    file.write_text(header + yaml.safe_dump_all(documents), encoding="utf-8")
    return classify_file(file, Settings())


@pytest.mark.parametrize(
    ("item", "npu", "how", "hint"),
    [
        (pod({}), "no", "none", "none"),
        (pod(asks("nvidia.com/gpu")), "no", "none", "none"),
        (pod(asks("huawei.com/Ascend910")), "yes", "resource", "native"),
        (pod(asks("huawei.com/Ascend310P")), "yes", "resource", "either"),
        (pod(asks("huawei.com/Ascend910B4", "huawei.com/Ascend910B4-memory")), "yes", "resource", "hami"),
        (pod(asks("huawei.com/Ascend910", "huawei.com/Ascend910B4")), "yes", "resource", "none"),
        (pod(asks("huawei.com/vnpu-cores")), "yes", "resource", "none"),
        (pod({}, initContainers=[CHIPS]), "yes", "init-resource", "native"),
        (pod({**asks("huawei.com/npu"), **IDS}), "yes", "resource+env", "native"),
        (pod(IDS), "yes", "env", "none"),
        (pod(MOUNT, **mounts("/dev/davinci0")), "yes", "hostPath", "none"),
        (pod(PRIVILEGED, **mounts(TREE)), "yes", "privileged+hostPath", "none"),
        (pod(MOUNT, **mounts("/dev")), "no", "none", "none"),
        (pod(MOUNT, runtimeClassName="ascend", **mounts("/dev")), "yes", "hostPath", "none"),
        (pod(PRIVILEGED, namespace="kube-system", **mounts(TREE)), "no", "none", "none"),
        (pod({**PRIVILEGED, **IDS}, namespace="kube-system", **mounts(TREE)), "yes", "env+privileged+hostPath", "none"),
        (of_kind("Deployment", {"template": {"spec": {"containers": [CHIPS]}}}), "yes", "resource", "native"),
        (
            of_kind("CronJob", {"jobTemplate": {"spec": {"template": {"spec": {"containers": [CHIPS]}}}}}, "batch/v1"),
            "yes",
            "resource",
            "native",
        ),
        (
            of_kind("InferenceService", {"predictor": {"model": CHIPS}}, "serving.kserve.io/v1beta1"),
            "yes",
            "resource-in-cr",
            "native",
        ),
        (of_kind("TrainJob", {"trainer": {"env": IDS["env"]}}, "trainer.kubeflow.org/v1alpha1"), "yes", "env", "none"),
        ({"apiVersion": "v1", "kind": "List", "items": [pod({}), pod(IDS), "odd"]}, "yes", "env", "none"),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "any"}}, "no", "none", "none"),
    ],
)
def test_how_a_manifest_reaches_an_npu(tmp_path: Path, item: dict[str, Any], npu: str, how: str, hint: str) -> None:
    assert classified(tmp_path, item) == Classification("any.yaml", npu, how, "none", hint)


@pytest.mark.parametrize(
    ("name", "labels", "folder", "owner"),
    [
        ("ascend-device-plugin", {}, "/var/lib/kubelet/device-plugins", "native"),
        ("ascend-device-plugin", {}, "/var/lib/kubelet", "native"),
        ("any", {"name": "ascend-device-plugin-ds"}, "/var/lib/kubelet/device-plugins", "mindcluster"),
        ("any", {"app.kubernetes.io/component": "hami-ascend-device-plugin"}, "/var/lib/kubelet", "hami"),
        ("npu-dra-kubeletplugin", {}, "/var/lib/kubelet/plugins_registry", "dra"),
        ("npu-exporter", {}, "/var/lib/kubelet/pod-resources", "none"),
    ],
)
def test_whose_plugin_a_manifest_is(tmp_path: Path, name: str, labels: dict[str, str], folder: str, owner: str) -> None:
    spec = pod(MOUNT, **mounts(folder))["spec"]
    item = of_kind("DaemonSet", {"template": {"metadata": {"labels": labels}, "spec": spec}})
    item["metadata"]["name"] = name
    assert classified(tmp_path, item) == Classification("any.yaml", "no", "none", owner, "none")


OF_NPUS = {"cel": {"expression": 'device.driver == "npu.huawei.com"'}}
CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "mine"},
    "spec": {"selectors": [OF_NPUS], "extendedResourceName": "example.com/chip"},
}


def claim(class_name: str, namespace: str = "team-a") -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "mine", "namespace": namespace},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": class_name}}]}},
    }


CLAIMING = pod({}, resourceClaims=[{"name": "r", "resourceClaimName": "mine"}])


@pytest.mark.parametrize(
    ("first", "others", "how"),
    [
        (CLAIMING, [claim("npu.huawei.com")], "dra"),
        (CLAIMING, [claim("mine"), CLASS], "dra"),
        (CLAIMING, [claim("mine")], "none"),
        (CLAIMING, [claim("mine", "other"), CLASS], "none"),
        (CLAIMING, [], "none"),
        (pod(asks("deviceclass.resource.kubernetes.io/mine")), [CLASS], "dra"),
        (pod(asks("example.com/chip")), [CLASS], "dra"),
        (pod(asks("example.com/chip")), [], "none"),
    ],
)
def test_further_documents_are_the_surroundings_of_the_first(
    tmp_path: Path, first: dict[str, Any], others: list[dict[str, Any]], how: str
) -> None:
    assert classified(tmp_path, first, *others).how == how


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["classify", *(str(word) for word in words)])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "train.yaml"
    found.write_text(yaml.safe_dump(pod({**asks("huawei.com/Ascend910")})), encoding="utf-8")
    return found


def test_a_line_says_what_a_file_is(file: Path) -> None:
    result = run(file)
    assert (result.exit_code, result.output) == (0, "train.yaml: npu=yes how=resource owner=none owner-hint=native\n")


def test_a_folder_is_read_for_machines(file: Path) -> None:
    (file.parent / "notes.txt").write_text("nothing")
    found = json.loads(run("--json", file.parent).output)
    assert found == [{"file": "train.yaml", "npu": "yes", "how": "resource", "owner": "none", "owner_hint": "native"}]


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("# npu: yes\n# how: resource\n# owner: none\n", ""),
        ("# npu: yes\n# how: resource-in-cr + annotation\n", ""),
        ("# npu: yes\n# how: resource (both containers)\n", ""),
        ("# npu: no\n", "npu: the header says no, found yes"),
        ("# npu: yes\n# how: env\n", "how: the header says env, found resource"),
        ("# npu: yes\n# how: env+resource\n", "how: the header says env+resource, found resource"),
        ("# owner: hami\n", "owner: the header says hami, found none"),
        ("# expect: foreign-ascend-owner\n# owner: none\n", "owner: the header says foreign, found none"),
        ("# npu: no\n# confidence: judgement\n", "(confidence: judgement): npu: the header says no"),
        ("", ""),
    ],
)
def test_a_header_is_compared(file: Path, header: str, said: str) -> None:
    file.write_text(header + file.read_text(encoding="utf-8"), encoding="utf-8")
    result = run("--check", file)
    assert said in result.output
    assert result.output.endswith("0 passed, 1 failed\n" if said else "1 passed, 0 failed\n")
    assert result.exit_code == (1 if said else 0)


def test_a_header_ends_where_the_manifest_begins(file: Path) -> None:
    file.write_text("# npu: yes\n# no colon\nkind: Pod\n# owner: hami\n", encoding="utf-8")
    assert read_header(file) == {"npu": "yes"}


@pytest.mark.parametrize("content", ["", "---\n", "kind: [", "- a\n"])
def test_a_file_that_is_no_manifest_is_a_mistake_that_names_it(file: Path, content: str) -> None:
    file.write_text(content, encoding="utf-8")
    result = run(file)
    assert (result.exit_code, "train.yaml" in result.output) == (2, True)


def test_a_file_that_is_not_there_is_a_mistake() -> None:
    assert run("absent.yaml").exit_code == 2


def test_the_corpus_agrees_but_for_what_is_a_matter_of_judgement() -> None:
    result = run("--check", Path(__file__).parents[2] / "corpus")
    lines = result.output.splitlines()
    assert [line.split()[1][:4] for line in lines[:-1]] == ["p053", "p117"]
    assert all("(confidence: judgement)" in line for line in lines[:-1])
