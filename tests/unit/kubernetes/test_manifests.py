"""The manifests: valid for Kubernetes, true to what they were asked for, and options that Penstock knows."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

import kubernetes_validate
import pytest
import yaml

from penstock.cli.main import create_parser, main
from penstock.errors import ArgumentError
from penstock.kubernetes.manifests import image_patch, render, render_upgrade
from penstock.kubernetes.settings import ClusterSettings
from penstock.options.configuration import Configuration
from penstock.options.option_checks import validate
from penstock.rest.resources import ROUTES

VERSIONS = ("1.31", "1.34")
PROGRAM = ClusterSettings("fraud", "registry.example/fraud:1", "/opt/app/job.py", ("--in", 'a "b"'))
CLUSTERS = {
    "program": PROGRAM,
    "session": ClusterSettings("shared", "registry.example/penstock:1", namespace="streams"),
    "s3": ClusterSettings("fraud", "r/f:1", "/opt/app/job.py", storage="s3://bucket/fraud/"),
    "class": ClusterSettings("fraud", "r/f:1", "/x.py", storage="1Ti", storage_class="nfs"),
    "bounded": ClusterSettings("fraud", "r/f:1", "/x.py", bounded=True, replicas=1),
}


def objects(text: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(text) if each is not None]


def only(found: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (one,) = [each for each in found if each["kind"] == kind]
    return one


def options_of(settings: ClusterSettings) -> dict[str, str]:
    config = only(objects(render(settings)), "ConfigMap")
    return yaml.safe_load(config["data"]["penstock.yaml"])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("settings", CLUSTERS.values(), ids=CLUSTERS)
def test_kubernetes_takes_them(settings: ClusterSettings, version: str) -> None:
    found = objects(render(settings)) + objects(render_upgrade(settings, "r/f:2"))
    for each in found:
        kubernetes_validate.validate(each, version, strict=True)
    assert {each["metadata"]["namespace"] for each in found} == {settings.namespace}


def test_the_schemas_find_what_is_wrong() -> None:
    driver = only(objects(render(PROGRAM)), "Deployment")
    driver["spec"]["template"]["spec"]["containers"][0]["imagePullPolice"] = "Always"
    with pytest.raises(kubernetes_validate.ValidationError, match="imagePullPolice"):
        kubernetes_validate.validate(driver, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("settings", CLUSTERS.values(), ids=CLUSTERS)
def test_every_object_is_explained(settings: ClusterSettings) -> None:
    for part in render(settings).split("---\n")[1:]:
        assert part.startswith("#") or "kind: Role" in part, part[:80]


@pytest.mark.parametrize("settings", CLUSTERS.values(), ids=CLUSTERS)
def test_penstock_knows_all_options_in_them(settings: ClusterSettings) -> None:
    validate(Configuration.from_dict(options_of(settings)))


@pytest.mark.parametrize("settings", CLUSTERS.values(), ids=CLUSTERS)
def test_the_command_line_takes_the_drivers_arguments(settings: ClusterSettings) -> None:
    found = objects(render(settings))
    driver = only(found, "Job" if settings.bounded else "Deployment")
    container = driver["spec"]["template"]["spec"]["containers"][0]
    words = [*container["command"], *container["args"]]
    known = _commands(create_parser())
    if words[1] not in known:
        pytest.skip(f"there is no penstock {words[1]}")
    given = create_parser().parse_args(words[1:])
    assert "rest.address=$(POD_IP)" in given.options
    if settings.program is not None:
        assert (given.script, tuple(given.arguments)) == (settings.program, settings.arguments)


def _commands(parser: argparse.ArgumentParser) -> list[str]:
    (actions,) = [each for each in parser._actions if isinstance(each.choices, dict)]
    return list(actions.choices)


def test_the_upgrade_is_a_command_of_this_version() -> None:
    container = only(objects(render_upgrade(PROGRAM, "r/f:2")), "Job")["spec"]["template"]["spec"]
    (upgrade,) = container["containers"]
    given = create_parser().parse_args([*upgrade["command"][1:], *upgrade["args"]])
    assert (given.name, given.image, given.manager) == ("fraud", "r/f:2", "fraud:8081")
    assert given.savepoint_dir == "/checkpoints/savepoints"


def test_the_probe_asks_for_a_path_that_there_is() -> None:
    driver = only(objects(render(PROGRAM)), "Deployment")["spec"]["template"]["spec"]
    (container,) = driver["containers"]
    path = container["readinessProbe"]["httpGet"]["path"]
    assert path in {route.path for route in ROUTES}


def test_what_was_given_goes_before_what_is_usual() -> None:
    given = {"execution.checkpointing.interval": "1 min", "spark.executor.memoryOverhead": "1g"}
    found = options_of(ClusterSettings("a", "i", options=given))
    assert found["execution.checkpointing.interval"] == "1 min"
    assert found["spark.executor.memoryOverhead"] == "1g"
    assert found["high-availability.cluster-id"] == "a"


def test_executors_have_the_volume_or_the_keys_too() -> None:
    volume = options_of(PROGRAM)
    prefix = "spark.kubernetes.executor.volumes.persistentVolumeClaim.checkpoints."
    assert volume[prefix + "mount.path"] == "/checkpoints"
    claim = only(objects(render(PROGRAM)), "PersistentVolumeClaim")
    assert volume[prefix + "options.claimName"] == claim["metadata"]["name"]
    keys = options_of(CLUSTERS["s3"])
    assert keys["execution.checkpointing.dir"] == "s3://bucket/fraud/checkpoints"
    assert keys["spark.kubernetes.executor.secretKeyRef.AWS_ACCESS_KEY_ID"].startswith("fraud-s3:")


def test_an_upgrade_changes_the_image_of_the_driver_and_of_its_executors() -> None:
    driver = only(objects(render(PROGRAM)), "Deployment")["spec"]["template"]["spec"]
    (container,) = driver["containers"]
    (patched,) = image_patch("r/f:2")["spec"]["template"]["spec"]["containers"]
    assert patched["name"] == container["name"]
    (variable,) = patched["env"]
    assert variable["name"] in {each["name"] for each in container["env"]}
    assert f"spark.kubernetes.container.image=$({variable['name']})" in container["args"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "Fraud"}, "invalid name of a cluster"),
        ({"namespace": "a_b"}, "invalid namespace"),
        ({"image": "a b"}, "invalid image name"),
        ({"storage": "20"}, "neither a volume size nor an S3 URI"),
        ({"executor_memory": "4Gi"}, "invalid executor memory"),
        ({"driver_memory": "4g"}, "invalid driver memory"),
        ({"replicas": 0}, "invalid number of replicas: 0"),
        ({"bounded": True}, "a session is not bounded"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        ClusterSettings(**{"name": "fraud", "image": "r/f:1", **change})


def test_the_command_writes_a_file_or_prints(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    command = "kubernetes render fraud --image r/f:1 --program /x.py --argument=--in -D parallelism.default=3"
    assert main(shlex.split(command)) == 0
    printed = capsys.readouterr().out
    assert main([*shlex.split(command), "-o", str(tmp_path / "fraud.yaml")]) == 0
    assert (tmp_path / "fraud.yaml").read_text() == printed
    assert only(objects(printed), "Deployment")
    assert main([*shlex.split(command), "-D", "parallelism.defalt=3"]) == 2
    assert "parallelism.default" in capsys.readouterr().err
    assert main([*shlex.split(command), "-o", str(tmp_path)]) == 2
