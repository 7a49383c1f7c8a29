"""`penstock kubernetes render | upgrade`: manifests of a cluster, and a new image for a running one."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.output import print_json, print_line
from penstock.errors import ArgumentError, PenstockError

if TYPE_CHECKING:
    from penstock.cli.jobs import Commands
    from penstock.kubernetes.settings import ClusterSettings

_EPILOG = """\
  penstock kubernetes render fraud --image registry/fraud:1 --program /opt/app/job.py -o fraud.yaml
  kubectl apply -f fraud.yaml

  penstock kubernetes render fraud --image registry/fraud:1 --upgrade-to registry/fraud:2 -o upgrade.yaml
  kubectl create -f upgrade.yaml
"""


def add_commands(commands: Commands) -> None:
    """Add the command of this module to the command line."""
    parser = commands.add_parser(
        "kubernetes",
        help="write manifests for Kubernetes, or upgrade a cluster",
        description="Write manifests for Kubernetes, or upgrade a running cluster.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_render(actions)
    _add_upgrade(actions)


def _add_render(actions: Commands) -> None:
    parser = actions.add_parser(
        "render",
        help="write the commented manifests of a cluster",
        description="Write the commented manifests of a cluster. Nothing is applied.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(call=_render)
    parser.add_argument(
        "name", metavar="NAME", help="name of the cluster and prefix of its objects"
    )
    parser.add_argument("--image", required=True, help="image of the driver and the executors")
    parser.add_argument(
        "--program", metavar="PATH", help="program in the image (default: a session)"
    )
    parser.add_argument(
        "--argument",
        dest="arguments",
        action="append",
        default=[],
        metavar="TEXT",
        help="argument of the program; repeatable",
    )
    parser.add_argument(
        "--bounded",
        action="store_true",
        help="the program is bounded: create a Job, not a Deployment",
    )
    parser.add_argument("-n", "--namespace", default="default", help="namespace (default: default)")
    parser.add_argument(
        "--replicas",
        type=int,
        default=2,
        metavar="N",
        help="number of JobManager replicas (default: 2)",
    )
    parser.add_argument(
        "--executors", type=int, default=2, metavar="N", help="number of executors (default: 2)"
    )
    parser.add_argument(
        "--executor-cores", type=int, default=2, metavar="N", help="cores per executor (default: 2)"
    )
    parser.add_argument(
        "--executor-memory", default="4g", metavar="SIZE", help="memory per executor (default: 4g)"
    )
    parser.add_argument(
        "--driver-memory",
        default="2Gi",
        metavar="SIZE",
        help="memory per JobManager (default: 2Gi)",
    )
    parser.add_argument(
        "--storage",
        default="20Gi",
        metavar="SIZE|URI",
        help="checkpoint storage: the size of a shared volume, or s3://bucket/path (default: 20Gi)",
    )
    parser.add_argument("--storage-class", metavar="NAME", help="storage class of the volume")
    parser.add_argument(
        "-D",
        dest="options",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set an option of Penstock or Spark; repeatable",
    )
    parser.add_argument(
        "--upgrade-to",
        metavar="IMAGE",
        help="write a Job that takes a savepoint and then sets this image",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="output file (default: standard output)"
    )


def _add_upgrade(actions: Commands) -> None:
    parser = actions.add_parser(
        "upgrade",
        help="take a savepoint of every job of a cluster, then set a new image",
        description="Take a savepoint of every job of a cluster, then set a new image. If a savepoint fails, nothing changes.",
    )
    parser.set_defaults(call=_upgrade)
    parser.add_argument("name", metavar="NAME", help="name of the cluster")
    parser.add_argument("--image", required=True, help="the new image")
    parser.add_argument("-n", "--namespace", default="default", help="namespace (default: default)")
    parser.add_argument(
        "-m", "--manager", required=True, metavar="HOST:PORT", help="address of its REST API"
    )
    parser.add_argument("--token", help="token of the REST API; or set PENSTOCK_TOKEN")
    parser.add_argument(
        "--savepoint-dir", metavar="PATH", help="target directory of the savepoints"
    )
    parser.add_argument("--kubeconfig", metavar="FILE", help="a kubeconfig file")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _render(given: argparse.Namespace) -> int:
    from penstock.kubernetes.manifests import render, render_upgrade

    settings = _settings(given)
    if given.upgrade_to is None:
        text = render(settings)
    else:
        text = render_upgrade(settings, given.upgrade_to)
    if given.output is None:
        sys.stdout.write(text)
        return 0
    try:
        Path(given.output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ArgumentError(f"cannot write {given.output}: {error.strerror}") from error
    return 0


def _settings(given: argparse.Namespace) -> ClusterSettings:
    from penstock.kubernetes.settings import ClusterSettings
    from penstock.options.configuration import Configuration
    from penstock.options.option_checks import validate

    options = Configuration()
    for pair in given.options:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ArgumentError(f"invalid option '{pair}'", hint="write -D key=value")
        options.set_string(key.strip(), value)
    validate(options, "command line")
    return ClusterSettings(
        name=given.name,
        image=given.image,
        program=given.program,
        arguments=tuple(given.arguments),
        namespace=given.namespace,
        replicas=given.replicas,
        bounded=given.bounded,
        executors=given.executors,
        executor_cores=given.executor_cores,
        executor_memory=given.executor_memory,
        driver_memory=given.driver_memory,
        storage=given.storage,
        storage_class=given.storage_class,
        options={key: str(value) for key, value in options.to_dict().items()},
    )


def _upgrade(given: argparse.Namespace) -> int:
    from penstock.cli import job_commands
    from penstock.cli.reach import find_jobs
    from penstock.kubernetes.upgrade import set_image

    for job in find_jobs(given.manager, given.token):
        if not job.runs:
            continue
        with contextlib.redirect_stdout(sys.stderr if given.json else sys.stdout):
            code = job_commands.savepoint(
                given.manager, given.token, job.id, given.savepoint_dir, detach=False
            )
        if code:
            raise PenstockError(
                f"no savepoint of job '{job.name}': the image of '{given.name}' was not changed"
            )
    set_image(given.name, given.image, namespace=given.namespace, config_file=given.kubeconfig)
    if given.json:
        print_json({"name": given.name, "image": given.image})
    else:
        print_line(f"{given.name} now runs {given.image}")
    return 0
