"""Options of the REST server, of high availability and of slots."""

from __future__ import annotations

from penstock.options.config_options import ConfigOptions
from penstock.options.registry import describe
from penstock.time.durations import Duration

# The REST server

REST_ADDRESS = describe(
    ConfigOptions.key("rest.address").string_type().no_default_value(),
    "Address that clients connect to. Default: the address on which the server listens.",
)
REST_PORT = describe(
    ConfigOptions.key("rest.port").int_type().default_value(0),
    "Port on which the server listens; 0: any free port, which `penstock list` shows.",
    "web.port",
    minimum=0,
)
REST_BIND_ADDRESS = describe(
    ConfigOptions.key("rest.bind-address").string_type().default_value("127.0.0.1"),
    "Address on which the server listens. Unless it is loopback, every request needs the token.",
    "web.address",
    "jobmanager.web.address",
)
REST_BIND_PORT = describe(
    ConfigOptions.key("rest.bind-port").string_type().no_default_value(),
    "Port, or range of ports such as 8081-8090, on which the server listens. Default: rest.port.",
    "jobmanager.web.port",
)
WEB_CANCEL = describe(
    ConfigOptions.key("web.cancel.enable").boolean_type().default_value(True),
    "Whether the web page can cancel jobs. The command line and other clients of the REST API always can.",
)
WEB_SUBMIT = describe(
    ConfigOptions.key("web.submit.enable").boolean_type().default_value(True),
    "Whether a session accepts programs uploaded by the web page or the REST API (/jars).",
    "jobmanager.web.submit.enable",
)
WEB_RESCALE = describe(
    ConfigOptions.key("web.rescale.enable").boolean_type().default_value(True),
    "Whether the web page can change the parallelism of jobs.",
)
WEB_REFRESH_INTERVAL = describe(
    ConfigOptions.key("web.refresh-interval").duration_type().default_value(Duration.of_seconds(3)),
    "Refresh interval of the web page.",
    "jobmanager.web.refresh-interval",
    minimum=1,
)
_REST_SSL = "security.ssl.rest."
REST_SSL_ENABLED = describe(
    ConfigOptions.key(_REST_SSL + "enabled").boolean_type().default_value(False),
    "Whether the REST server uses TLS.",
)
REST_SSL_AUTHENTICATION = describe(
    ConfigOptions.key(_REST_SSL + "authentication-enabled").boolean_type().default_value(False),
    "Whether clients of the REST server must present a certificate.",
)
REST_SSL_KEYSTORE = describe(
    ConfigOptions.key(_REST_SSL + "keystore").string_type().no_default_value(),
    "PEM file with the REST server's certificate chain and its key.",
)
REST_SSL_KEY_PASSWORD = describe(
    ConfigOptions.key(_REST_SSL + "key-password").string_type().no_default_value(),
    "Password of the key in the keystore.",
)
REST_SSL_TRUSTSTORE = describe(
    ConfigOptions.key(_REST_SSL + "truststore").string_type().no_default_value(),
    "PEM file with the CA certificates that the REST server trusts for clients.",
)

# High availability

_HA = "high-availability."
HA_TYPE = describe(
    ConfigOptions.key(_HA + "type")
    .enum_type(["NONE", "zookeeper", "kubernetes", "storage"])
    .default_value("NONE"),
    "Leader election among several JobManagers: zookeeper, kubernetes (a Lease), or storage, a lease below "
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
    "Name of the cluster: JobManagers with the same name are standbys of each other.",
    "high-availability.zookeeper.path.namespace",
    "recovery.zookeeper.path.namespace",
)
HA_WARM_STANDBY = describe(
    ConfigOptions.key("penstock.high-availability.warm-standby").boolean_type().no_default_value(),
    "Whether a standby starts its Spark application before it becomes the leader, and holds the executors. Default: if the master is local.",
)
HA_STORAGE_LEASE = describe(
    ConfigOptions.key("penstock.high-availability.storage.lease-duration")
    .duration_type()
    .default_value(Duration.of_seconds(5)),
    "With storage: time without a heartbeat after which another JobManager becomes the leader.",
    minimum=1,
)
HA_ZOOKEEPER_QUORUM = describe(
    ConfigOptions.key(_HA + "zookeeper.quorum").string_type().no_default_value(),
    "With zookeeper: comma-separated host:port of its servers.",
    "recovery.zookeeper.quorum",
)
HA_ZOOKEEPER_ROOT = describe(
    ConfigOptions.key(_HA + "zookeeper.path.root").string_type().default_value("/penstock"),
    "With zookeeper: root path of the nodes of clusters.",
    "recovery.zookeeper.path.root",
)
HA_ZOOKEEPER_SESSION = describe(
    ConfigOptions.key(_HA + "zookeeper.client.session-timeout")
    .duration_type()
    .default_value(Duration.of_seconds(5)),
    "With zookeeper: session timeout, after which another JobManager becomes the leader. The server's minimum is two ticks.",
    "recovery.zookeeper.client.session-timeout",
    minimum=1,
)
HA_ZOOKEEPER_TOLERATE = describe(
    ConfigOptions.key(_HA + "zookeeper.client.tolerate-suspended-connections")
    .boolean_type()
    .default_value(False),
    "With zookeeper: whether a leader that has lost its connection keeps leadership while its session certainly lasts.",
)
HA_KUBERNETES_LEASE = describe(
    ConfigOptions.key(_HA + "kubernetes.leader-election.lease-duration")
    .duration_type()
    .default_value(Duration.of_seconds(5)),
    "With kubernetes: time without a renewal after which another JobManager becomes the leader.",
    minimum=1,
)
HA_KUBERNETES_DEADLINE = describe(
    ConfigOptions.key(_HA + "kubernetes.leader-election.renew-deadline")
    .duration_type()
    .default_value(Duration.of_seconds(4)),
    "With kubernetes: time after which a leader that cannot renew its lease gives up leadership.",
    minimum=1,
)
HA_KUBERNETES_RETRY = describe(
    ConfigOptions.key(_HA + "kubernetes.leader-election.retry-period")
    .duration_type()
    .default_value(Duration.of_seconds(1)),
    "With kubernetes: how often the lease is checked and renewed.",
    minimum=1,
)
KUBERNETES_NAMESPACE = describe(
    ConfigOptions.key("kubernetes.namespace").string_type().default_value("default"),
    "The namespace of the cluster's objects in Kubernetes.",
)
KUBERNETES_CONFIG_FILE = describe(
    ConfigOptions.key("kubernetes.config.file").string_type().no_default_value(),
    "The kubeconfig file. Default: the pod's service account, else $KUBECONFIG or ~/.kube/config.",
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
    "How long a job waits for slots that other jobs hold, or that the cluster does not have yet. Default: 5 min for the "
    "former, and a job that needs more slots than the cluster has is rejected at once.",
    minimum=0,
)
