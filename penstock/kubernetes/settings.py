"""What the manifests of a cluster are made of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock import options
from penstock.errors import ArgumentError

MOUNT = "/checkpoints"

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
_QUANTITY = re.compile(r"[1-9][0-9]*(Mi|Gi|Ti)")
_MEMORY = re.compile(r"[1-9][0-9]*[mg]")
_IMAGE = re.compile(r"[^\s]+")
_S3 = "s3://"


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """A cluster on Kubernetes: a program with its own driver, or a session that programs are sent to."""

    name: str
    image: str
    program: str | None = None  # a file in the image; None: a session
    arguments: tuple[str, ...] = ()
    namespace: str = "default"
    replicas: int = 2
    bounded: bool = False
    executors: int = 2
    executor_cores: int = 2
    executor_memory: str = "4g"
    driver_cpu: str = "1"
    driver_memory: str = "2Gi"
    storage: str = "20Gi"  # the size of a volume, or s3://bucket/path
    storage_class: str | None = None
    port: int = 8081
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for what, text in (("name of a cluster", self.name), ("namespace", self.namespace)):
            if not _NAME.fullmatch(text):
                raise ArgumentError(
                    f"invalid {what} '{text}'",
                    hint="use at most 40 lower-case letters, digits and '-', starting with a letter",
                )
        if not _IMAGE.fullmatch(self.image):
            raise ArgumentError(f"invalid image name '{self.image}'")
        if not self.uses_s3 and not _QUANTITY.fullmatch(self.storage):
            raise ArgumentError(
                f"invalid storage '{self.storage}': neither a volume size nor an S3 URI",
                hint="write 20Gi, or s3://bucket/path",
            )
        if not _MEMORY.fullmatch(self.executor_memory):
            raise ArgumentError(
                f"invalid executor memory '{self.executor_memory}'", hint="write 4g or 512m"
            )
        if not _QUANTITY.fullmatch(self.driver_memory):
            raise ArgumentError(f"invalid driver memory '{self.driver_memory}'", hint="write 2Gi")
        for what, number in (
            ("replicas", self.replicas),
            ("executors", self.executors),
            ("cores", self.executor_cores),
        ):
            if number < 1:
                raise ArgumentError(f"invalid number of {what}: {number}")
        if self.bounded and self.program is None:
            raise ArgumentError("a session is not bounded", hint="remove --bounded")

    @property
    def uses_s3(self) -> bool:
        """Whether checkpoints go to S3, and not to a volume."""
        return self.storage.startswith(_S3)

    @property
    def shared(self) -> str:
        """The directory that all JobManagers and all tasks share."""
        return self.storage.rstrip("/") if self.uses_s3 else MOUNT

    def configuration(self) -> dict[str, str]:
        """Return the options in penstock.yaml. Given options override the defaults."""
        found = {
            options.CHECKPOINT_INTERVAL.key: "10 s",
            options.CHECKPOINT_DIR.key: f"{self.shared}/checkpoints",
            options.SAVEPOINT_DIR.key: f"{self.shared}/savepoints",
            options.HA_TYPE.key: "kubernetes",
            options.HA_CLUSTER_ID.key: self.name,
            options.HA_STORAGE_DIR.key: f"{self.shared}/ha",
            options.KUBERNETES_NAMESPACE.key: self.namespace,
            options.REST_BIND_ADDRESS.key: "0.0.0.0",  # noqa: S104 - of the pod, and behind a token
            options.REST_PORT.key: str(self.port),
            "spark.master": "k8s://https://kubernetes.default.svc",
            "spark.app.name": self.name,
            "spark.kubernetes.namespace": self.namespace,
            "spark.kubernetes.authenticate.executor.serviceAccountName": f"{self.name}-executor",
            "spark.kubernetes.executor.label.app": self.name,
            "spark.executor.instances": str(self.executors),
            "spark.executor.cores": str(self.executor_cores),
            "spark.executor.memory": self.executor_memory,
            # Pipelined jobs occupy their cores, so dynamic allocation must be off.
            "spark.dynamicAllocation.enabled": "false",
            **self._storage_options(),
        }
        return {**found, **self.options}

    def _storage_options(self) -> dict[str, str]:
        if self.uses_s3:
            prefix = "spark.kubernetes.executor.secretKeyRef."
            names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
            return {prefix + name: f"{self.name}-s3:{name}" for name in names}
        volume = "spark.kubernetes.executor.volumes.persistentVolumeClaim.checkpoints."
        return {
            volume + "mount.path": MOUNT,
            volume + "options.claimName": f"{self.name}-checkpoints",
        }
