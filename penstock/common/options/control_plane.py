"""Options of the REST server, of high availability and of slots."""

from __future__ import annotations

from penstock.common.config_options import ConfigOptions
from penstock.common.options.registry import describe
from penstock.common.time import Duration

# The REST server

REST_ADDRESS = describe(
    ConfigOptions.key("rest.address").string_type().no_default_value(),
    "Address that clients connect to. Without it: the address that the server listens on.",
)
REST_PORT = describe(
    ConfigOptions.key("rest.port").int_type().default_value(0),
    "Port that the server listens on; 0: any that is free, which `penstock list` shows.",
    "web.port",
    minimum=0,
)
REST_BIND_ADDRESS = describe(
    ConfigOptions.key("rest.bind-address").string_type().default_value("127.0.0.1"),
    "Address that the server listens on. Elsewhere than on loopback every request needs the token.",
    "web.address",
    "jobmanager.web.address",
)
REST_BIND_PORT = describe(
    ConfigOptions.key("rest.bind-port").string_type().no_default_value(),
    "Port, or range of ports such as 8081-8090, that the server listens on. Without it: rest.port.",
    "jobmanager.web.port",
)
WEB_CANCEL = describe(
    ConfigOptions.key("web.cancel.enable").boolean_type().default_value(True),
    "Whether the web page cancels jobs. The command line and other clients of the REST API do in any case.",
)
WEB_SUBMIT = describe(
    ConfigOptions.key("web.submit.enable").boolean_type().default_value(True),
    "Whether a session takes programs that are uploaded, by the web page or the REST API (/jars).",
    "jobmanager.web.submit.enable",
)
WEB_RESCALE = describe(
    ConfigOptions.key("web.rescale.enable").boolean_type().default_value(True),
    "Whether the web page changes the parallelism of jobs.",
)
WEB_REFRESH_INTERVAL = describe(
    ConfigOptions.key("web.refresh-interval").duration_type().default_value(Duration.of_seconds(3)),
    "How often the web page asks for news.",
    "jobmanager.web.refresh-interval",
    minimum=1,
)
_REST_SSL = "security.ssl.rest."
REST_SSL_ENABLED = describe(
    ConfigOptions.key(_REST_SSL + "enabled").boolean_type().default_value(False),
    "Whether the REST server speaks TLS.",
)
REST_SSL_AUTHENTICATION = describe(
    ConfigOptions.key(_REST_SSL + "authentication-enabled").boolean_type().default_value(False),
    "Whether clients of the REST server must show a certificate, too.",
)
REST_SSL_KEYSTORE = describe(
    ConfigOptions.key(_REST_SSL + "keystore").string_type().no_default_value(),
    "PEM file with the REST server's certificate, those that signed it, and its key.",
)
REST_SSL_KEY_PASSWORD = describe(
    ConfigOptions.key(_REST_SSL + "key-password").string_type().no_default_value(),
    "Password of the key in the keystore.",
)
REST_SSL_TRUSTSTORE = describe(
    ConfigOptions.key(_REST_SSL + "truststore").string_type().no_default_value(),
    "PEM file with the certificates of authorities whose clients the REST server trusts.",
)

# High availability

_HA = "high-availability."
HA_TYPE = describe(
    ConfigOptions.key(_HA + "type")
    .enum_type(["NONE", "zookeeper", "kubernetes", "storage"])
    .default_value("NONE"),
    "What elects a leader among several JobManagers: zookeeper, kubernetes (a Lease), or storage, a lease below "
    "high-availability.storageDir.",
    "high-availability",
    "recovery.mode",
)
HA_STORAGE_DIR = describe(
    ConfigOptions.key(_HA + "storageDir").string_type().no_default_value(),
    "Directory (path or URI) that all JobManagers share: submitted jobs, results, and checkpoints if nothing else is set.",
    "high-availability.zookeeper.storageDir",
    "recovery.zookeeper.storageDir",
)
HA_CLUSTER_ID = describe(
    ConfigOptions.key(_HA + "cluster-id").string_type().default_value("default"),
    "Name of the cluster: JobManagers with the same one stand by for each other.",
    "high-availability.zookeeper.path.namespace",
    "recovery.zookeeper.path.namespace",
)
HA_WARM_STANDBY = describe(
    ConfigOptions.key("penstock.high-availability.warm-standby").boolean_type().no_default_value(),
    "Whether a standby starts its Spark application before it leads, and holds the executors. Without it: if the master is local.",
)
HA_STORAGE_LEASE = describe(
    ConfigOptions.key("penstock.high-availability.storage.lease-duration")
    .duration_type()
    .default_value(Duration.of_seconds(5)),
    "With storage: after what time without a sign of life another JobManager leads.",
    minimum=1,
)
HA_ZOOKEEPER_QUORUM = describe(
    ConfigOptions.key(_HA + "zookeeper.quorum").string_type().no_default_value(),
    "With zookeeper: its servers, host:port separated by commas.",
    "recovery.zookeeper.quorum",
)
HA_ZOOKEEPER_ROOT = describe(
    ConfigOptions.key(_HA + "zookeeper.path.root").string_type().default_value("/penstock"),
    "With zookeeper: the path below which clusters have their nodes.",
    "recovery.zookeeper.path.root",
)
HA_ZOOKEEPER_SESSION = describe(
    ConfigOptions.key(_HA + "zookeeper.client.session-timeout")
    .duration_type()
    .default_value(Duration.of_seconds(5)),
    "With zookeeper: after what time without a sign of life another JobManager leads. The server may allow no less than two ticks.",
    "recovery.zookeeper.client.session-timeout",
    minimum=1,
)
HA_ZOOKEEPER_TOLERATE = describe(
    ConfigOptions.key(_HA + "zookeeper.client.tolerate-suspended-connections")
    .boolean_type()
    .default_value(False),
    "With zookeeper: whether a leader that has lost its connection goes on for as long as its session is certain to last.",
)
HA_KUBERNETES_LEASE = describe(
    ConfigOptions.key(_HA + "kubernetes.leader-election.lease-duration")
    .duration_type()
    .default_value(Duration.of_seconds(5)),
    "With kubernetes: after what time without a sign of life another JobManager leads.",
    minimum=1,
)
HA_KUBERNETES_DEADLINE = describe(
    ConfigOptions.key(_HA + "kubernetes.leader-election.renew-deadline")
    .duration_type()
    .default_value(Duration.of_seconds(4)),
    "With kubernetes: after what time a leader that cannot renew its lease gives up.",
    minimum=1,
)
HA_KUBERNETES_RETRY = describe(
    ConfigOptions.key(_HA + "kubernetes.leader-election.retry-period")
    .duration_type()
    .default_value(Duration.of_seconds(1)),
    "With kubernetes: how often the lease is looked at and renewed.",
    minimum=1,
)
KUBERNETES_NAMESPACE = describe(
    ConfigOptions.key("kubernetes.namespace").string_type().default_value("default"),
    "The namespace of the cluster's objects in Kubernetes.",
)
KUBERNETES_CONFIG_FILE = describe(
    ConfigOptions.key("kubernetes.config.file").string_type().no_default_value(),
    "The kubeconfig file. Without it: the pod's service account, else $KUBECONFIG or ~/.kube/config.",
)
EXECUTION_TARGET = describe(
    ConfigOptions.key("execution.target")
    .enum_type(["local", "session", "remote"])
    .default_value("local"),
    "Where a program's jobs run: local, in its own process and Spark application; session, in the session of this user, or the one at "
    "rest.address and rest.port. Flink's name for the latter is remote.",
)
EXECUTION_ATTACHED = describe(
    ConfigOptions.key("execution.attached").boolean_type().default_value(True),
    "Whether execute() waits for the end of a job that runs in a session. `penstock run --detached` sets it to false.",
)
SLOT_REQUEST_TIMEOUT = describe(
    ConfigOptions.key("slot.request.timeout").duration_type().no_default_value(),
    "How long a job waits for slots that other jobs hold, or that the cluster does not have yet. Without it: 5 min for the "
    "former, and a job that needs more than there are is refused at once.",
    minimum=0,
)
