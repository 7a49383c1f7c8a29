"""The services of a highly available cluster, as its options ask for them."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

from penstock.checkpoint.storage import HIGH_AVAILABILITY_WORDS, CheckpointStorage
from penstock.common import options
from penstock.common.configuration import Configuration
from penstock.common.file_errors import is_lasting
from penstock.errors import CheckpointError, ConfigurationError
from penstock.jobmanager.high_availability.election import LeaderElection

NONE = "NONE"
_TOKEN = "rest-token"  # noqa: S105 - the name of a file
STORAGE = "storage"
ZOOKEEPER = "zookeeper"

_log = logging.getLogger(__name__)
_CLUSTER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class HighAvailability:
    """What a highly available cluster has: a way to elect, and storage that all its JobManagers share."""

    type: str
    cluster_id: str
    storage: CheckpointStorage
    configuration: Configuration

    @classmethod
    def from_configuration(cls, configuration: Configuration) -> HighAvailability | None:
        """Read the options; None if there is to be one JobManager only."""
        kind = configuration.get(options.HA_TYPE)
        if kind == NONE:
            return None
        directory = configuration.get(options.HA_STORAGE_DIR)
        if directory is None:
            raise ConfigurationError(
                f"high-availability.type is {kind}, and high-availability.storageDir is not set",
                hint="set it to a directory or a URI that all JobManagers reach",
            )
        cluster = configuration.get(options.HA_CLUSTER_ID).strip("/")
        if not _CLUSTER_ID.fullmatch(cluster):
            raise ConfigurationError(
                f"high-availability.cluster-id is '{cluster}', which cannot be the name of a directory",
                hint="use letters, digits, '-', '_' and '.'",
            )
        storage = CheckpointStorage(directory, words=HIGH_AVAILABILITY_WORDS).child(cluster)
        return cls(kind, cluster, storage, configuration)

    def check_storage(self) -> None:
        """Raise an error if the JobManager can never write to the storage; one that is away may come back."""
        try:
            self.storage.probe()
        except CheckpointError as error:
            if isinstance(error.__cause__, OSError) and is_lasting(error.__cause__):
                raise ConfigurationError(
                    error.message, detail=error.detail, hint=error.hint
                ) from error.__cause__
            _log.warning("the storage of high availability does not answer: %s", error)

    @property
    def warm(self) -> bool:
        """Whether standbys start Spark at once. By default not on a cluster, where that takes executors that the leader may need."""
        wanted = self.configuration.get(options.HA_WARM_STANDBY)
        if wanted is not None:
            return wanted
        master = options.spark_options(self.configuration).get("spark.master", "local")
        return master.startswith("local") and not master.startswith("local-cluster")

    def with_shared_checkpoints(self, configuration: Configuration) -> Configuration:
        """Return options by which checkpoints are where all JobManagers find them, unless they say where."""
        shared = Configuration(configuration)
        if shared.get(options.CHECKPOINT_DIR) is None:
            shared.set(options.CHECKPOINT_DIR, self.storage.path("checkpoints"))
        return shared

    def shared_token(self, own: str) -> str:
        """Return the token that clients of all JobManagers of this cluster use: that of the first one.

        Whoever can read the directory can put jobs there too, so the token is no less safe in it.
        """
        if self.storage.create(_TOKEN, own.encode()):
            return own
        return self.storage.read(_TOKEN).decode()

    def create_election(self) -> LeaderElection:
        """Return a new way to elect a leader, which nobody takes part in yet."""
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
