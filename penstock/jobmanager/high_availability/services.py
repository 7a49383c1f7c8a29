"""The services of a highly available cluster, from its options."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

from penstock import options
from penstock.checkpoint.storage import HIGH_AVAILABILITY_WORDS, CheckpointFileSystem
from penstock.errors import CheckpointError, ConfigurationError
from penstock.errors.file_errors import is_lasting
from penstock.jobmanager.high_availability.election import LeaderElection
from penstock.options.configuration import Configuration

NONE = "NONE"
_TOKEN = "rest-token"  # noqa: S105 - the name of a file
STORAGE = "storage"
ZOOKEEPER = "zookeeper"

_log = logging.getLogger(__name__)
_CLUSTER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class HighAvailability:
    """High-availability services: leader election, and storage that all JobManagers share."""

    type: str
    cluster_id: str
    storage: CheckpointFileSystem
    configuration: Configuration

    @classmethod
    def from_configuration(cls, configuration: Configuration) -> HighAvailability | None:
        """Read the options; None if high availability is disabled."""
        kind = configuration.get(options.HA_TYPE)
        if kind == NONE:
            return None
        directory = configuration.get(options.HA_STORAGE_DIR)
        if directory is None:
            raise ConfigurationError(
                f"high-availability.type is {kind}, but high-availability.storageDir is not set",
                hint="set it to a directory or URI that all JobManagers can reach",
            )
        cluster = configuration.get(options.HA_CLUSTER_ID).strip("/")
        if not _CLUSTER_ID.fullmatch(cluster):
            raise ConfigurationError(
                f"high-availability.cluster-id '{cluster}' is not a valid directory name",
                hint="use letters, digits, '-', '_' and '.'",
            )
        storage = CheckpointFileSystem(directory, words=HIGH_AVAILABILITY_WORDS).child(cluster)
        return cls(kind, cluster, storage, configuration)

    def check_storage(self) -> None:
        """Raise an error if the JobManager cannot write to the storage; only warn if it is temporarily unavailable."""
        try:
            self.storage.probe()
        except CheckpointError as error:
            if isinstance(error.__cause__, OSError) and is_lasting(error.__cause__):
                raise ConfigurationError(
                    error.message, detail=error.detail, hint=error.hint
                ) from error.__cause__
            _log.warning("the high-availability storage is not available: %s", error)

    @property
    def warm(self) -> bool:
        """Whether standbys start Spark in advance. By default not on a cluster, where they would hold executors that the leader may need."""
        wanted = self.configuration.get(options.HA_WARM_STANDBY)
        if wanted is not None:
            return wanted
        master = options.spark_options(self.configuration).get("spark.master", "local")
        return master.startswith("local") and not master.startswith("local-cluster")

    def with_shared_checkpoints(self, configuration: Configuration) -> Configuration:
        """Return the options with a checkpoint directory on the shared storage, unless one is set."""
        shared = Configuration(configuration)
        if shared.get(options.CHECKPOINT_DIR) is None:
            shared.set(options.CHECKPOINT_DIR, self.storage.path("checkpoints"))
        return shared

    def shared_token(self, own: str) -> str:
        """Return the REST token of all JobManagers of this cluster: that of the first one.

        A user who can read the directory can submit jobs through it anyway, so storing the token there adds no risk.
        """
        if self.storage.create(_TOKEN, own.encode()):
            return own
        return self.storage.read(_TOKEN).decode()

    def create_election(self) -> LeaderElection:
        """Return a new leader election, not started yet."""
        configuration = self.configuration
        if self.type == STORAGE:
            from penstock.jobmanager.high_availability.storage_election import StorageElection

            lease = configuration.get(options.HA_STORAGE_LEASE).to_millis() / 1000
            return StorageElection(self.storage.child("election"), lease_s=lease)
        if self.type == ZOOKEEPER:
            from penstock.jobmanager.high_availability.zookeeper_election import ZooKeeperElection

            return ZooKeeperElection.from_configuration(self.cluster_id, configuration)
        from penstock.jobmanager.high_availability.kubernetes_election import KubernetesElection

        return KubernetesElection.from_configuration(self.cluster_id, configuration)
