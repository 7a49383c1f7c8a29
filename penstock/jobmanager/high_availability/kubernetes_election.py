"""Leader election with a Kubernetes Lease, one per cluster.

The lease's annotation has the leader and its address for clients. The token is the creation time of the lease in seconds followed
by its number of transitions: a lease that was deleted and created again must not yield a smaller token.
"""

from __future__ import annotations

import datetime as dt
import logging
import re
import time
from typing import TYPE_CHECKING

from penstock import options
from penstock.errors import ConfigurationError, ConnectionFailedError
from penstock.jobmanager.high_availability.election import Candidate
from penstock.jobmanager.high_availability.election_thread import ElectionThread
from penstock.jobmanager.high_availability.leadership import LeadershipState
from penstock.jobmanager.high_availability.lease_core import LeaseAction, LeaseCore, LeaseRecord
from penstock.kubernetes.cluster import cluster_settings
from penstock.options.configuration import Configuration

if TYPE_CHECKING:
    from kubernetes.client import CoordinationV1Api, V1Lease

LEADER_ANNOTATION = "penstock/leader"
_TRANSITION_BITS = 24
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_CONFLICT, _NOT_FOUND = 409, 404

_log = logging.getLogger(__name__)


class KubernetesElection(ElectionThread):
    """The holder of a Lease is the leader.

    A leader that could not renew it for `deadline_s` loses leadership; others take it after `lease_s`, which must be longer.
    """

    def __init__(
        self,
        api: CoordinationV1Api,
        namespace: str,
        name: str,
        *,
        lease_s: float,
        deadline_s: float,
        retry_s: float,
    ) -> None:
        if not retry_s < deadline_s < lease_s:
            raise ConfigurationError(
                f"invalid lease settings: lease-duration {lease_s:g} s, renew-deadline {deadline_s:g} s, retry-period {retry_s:g} s",
                hint="retry-period must be shorter than renew-deadline, and that shorter than lease-duration",
            )
        super().__init__()
        self._api = api
        self._namespace = namespace
        self._name = name
        self._lease_s = lease_s
        self._deadline_s = deadline_s
        self._retry_s = retry_s

    @classmethod
    def from_configuration(
        cls, cluster_id: str, configuration: Configuration
    ) -> KubernetesElection:
        """Read the options."""
        name = f"{cluster_id}-leader"
        if not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"high-availability.cluster-id '{cluster_id}' is not a valid name of a Lease",
                hint="use lower-case letters, digits and '-'",
            )
        return cls(
            _connect(configuration.get(options.KUBERNETES_CONFIG_FILE)),
            configuration.get(options.KUBERNETES_NAMESPACE),
            name,
            lease_s=configuration.get(options.HA_KUBERNETES_LEASE).to_millis() / 1000,
            deadline_s=configuration.get(options.HA_KUBERNETES_DEADLINE).to_millis() / 1000,
            retry_s=configuration.get(options.HA_KUBERNETES_RETRY).to_millis() / 1000,
        )

    def leader(self) -> Candidate | None:
        """Return the holder of the lease. It may have just died."""
        try:
            lease = self._read()
        except Exception as error:  # the client may raise anything
            raise ConnectionFailedError(
                "Kubernetes does not answer", detail=f"{type(error).__name__}: {error}"
            ) from error
        if lease is None or not lease.spec.holder_identity:
            return None
        annotations = lease.metadata.annotations or {}
        return Candidate.decode(annotations.get(LEADER_ANNOTATION, "").encode())

    # The election thread

    def _run(self, candidate: Candidate, leadership: LeadershipState) -> None:
        core = LeaseCore(candidate.id)
        while not self._stop.is_set():
            try:
                self._round(core, candidate, leadership)
            except Exception as error:  # noqa: BLE001 - the client may raise anything; the next round tries again
                _log.warning("leader election failed, will retry: %s", error)
            self._stop.wait(self._retry_s)
        leads = leadership.token is not None
        leadership.close()
        if leads:
            self._release(candidate)

    def _round(self, core: LeaseCore, candidate: Candidate, leadership: LeadershipState) -> None:
        lease = self._read()
        began = time.monotonic()
        step = core.observe(None if lease is None else _record(lease), began)
        if step is LeaseAction.WAIT:
            leadership.revoke()
            return
        if step is LeaseAction.RENEW and leadership.token is None:
            # Leadership was lost here because the lease was not renewed in time: the old term must not continue.
            step = LeaseAction.TAKE
        written = self._write(lease, candidate, taken=step is not LeaseAction.RENEW)
        if written is None:
            leadership.revoke()  # another candidate was faster
        elif step is LeaseAction.RENEW:
            leadership.extend(began + self._deadline_s)
        else:
            token = _token(written)
            _log.info("%s is the leader, token %d", candidate.id, token)
            leadership.grant(token, began + self._deadline_s)

    def _write(self, lease: V1Lease | None, candidate: Candidate, *, taken: bool) -> V1Lease | None:
        """Write the lease with this candidate as its holder; None if it has changed since it was read."""
        from kubernetes.client import V1Lease, V1LeaseSpec, V1ObjectMeta

        now = dt.datetime.now(dt.UTC)
        if lease is None:
            metadata, before = V1ObjectMeta(name=self._name, namespace=self._namespace), None
        else:
            metadata, before = lease.metadata, lease.spec
        metadata.annotations = {
            **(metadata.annotations or {}),
            LEADER_ANNOTATION: candidate.encode().decode(),
        }
        transitions = 0 if before is None else (before.lease_transitions or 0)
        wanted = V1Lease(
            metadata=metadata,
            spec=V1LeaseSpec(
                holder_identity=candidate.id,
                lease_duration_seconds=max(1, round(self._lease_s)),
                acquire_time=now if taken or before is None else before.acquire_time,
                renew_time=now,
                lease_transitions=transitions + taken,
            ),
        )
        return self._put(wanted, exists=lease is not None)

    def _release(self, candidate: Candidate) -> None:
        try:
            lease = self._read()
            if lease is not None and lease.spec.holder_identity == candidate.id:
                lease.spec.holder_identity = None
                self._put(lease, exists=True)
        except Exception as error:  # noqa: BLE001 - the lease expires by itself
            _log.warning("cannot release the leader lease: %s", error)

    # Requests

    def _read(self) -> V1Lease | None:
        from kubernetes.client import ApiException

        try:
            return self._api.read_namespaced_lease(
                self._name, self._namespace, _request_timeout=self._deadline_s
            )
        except ApiException as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    def _put(self, lease: V1Lease, *, exists: bool) -> V1Lease | None:
        from kubernetes.client import ApiException

        try:
            if exists:  # rejected unless it has the current version
                return self._api.replace_namespaced_lease(
                    self._name, self._namespace, lease, _request_timeout=self._deadline_s
                )
            return self._api.create_namespaced_lease(
                self._namespace, lease, _request_timeout=self._deadline_s
            )
        except ApiException as error:
            if error.status in {_CONFLICT, _NOT_FOUND}:
                return None
            raise


def _record(lease: V1Lease) -> LeaseRecord:
    spec = lease.spec
    return LeaseRecord(
        spec.holder_identity,
        spec.lease_duration_seconds or 0,
        spec.lease_transitions or 0,
        lease.metadata.resource_version,
    )


def _token(lease: V1Lease) -> int:
    made = int(lease.metadata.creation_timestamp.timestamp())
    transitions: int = lease.spec.lease_transitions
    return (made << _TRANSITION_BITS) + transitions


def _connect(config_file: str | None) -> CoordinationV1Api:
    settings = cluster_settings(
        config_file,
        needed_by="high-availability.type kubernetes",
        message="high-availability.type is kubernetes, but there is no Kubernetes configuration",
        hint="run it in a pod with a service account, or set kubernetes.config.file to a kubeconfig file",
    )
    settings.retries = False  # the next round retries with current data

    from kubernetes.client import ApiClient, CoordinationV1Api

    return CoordinationV1Api(ApiClient(settings))
