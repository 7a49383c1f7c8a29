"""The manifests of a cluster, as YAML with comments: for people who read what they apply."""

from __future__ import annotations

import json
from collections.abc import Mapping

from penstock.kubernetes.settings import MOUNT, ClusterSettings

DRIVER = "driver"  # the name of the container
IMAGE_VARIABLE = "IMAGE"


def render(settings: ClusterSettings) -> str:
    """Return all that a cluster needs, in the order in which it is to be applied."""
    parts = [_head(settings), _accounts(settings), _configuration(settings)]
    if not settings.uses_s3:
        parts.append(_volume(settings))
    parts += [_service(settings), _driver(settings)]
    return "---\n".join(parts)


def render_upgrade(settings: ClusterSettings, image: str) -> str:
    """Return the Job that takes a savepoint of everything and then lets the cluster run with another image."""
    name = settings.name
    return f"""\
# Upgrade of {name} to another image. To be created, not applied: every upgrade is a Job of its own.
#
#   kubectl create -f upgrade.yaml
#   kubectl -n {settings.namespace} wait --for=condition=complete --timeout=15m job -l app={name},part=upgrade
#
# It takes a savepoint of every job and, if all of them succeed, sets the new image of the driver and its executors. The pods of the new
# image resume from the last checkpoint, which is newer than the savepoint: exactly once. The savepoint is for a rollback, with
# execution.state-recovery.path, if the new program turns out to be wrong.
apiVersion: batch/v1
kind: Job
metadata:
  generateName: {name}-upgrade-
  namespace: {settings.namespace}
  labels: {{app: {name}, part: upgrade}}
spec:
  # Once: a second attempt would take a second savepoint. What went wrong is in the log of the pod.
  backoffLimit: 0
  ttlSecondsAfterFinished: 604800
  template:
    metadata:
      labels: {{app: {name}, part: upgrade}}
    spec:
      restartPolicy: Never
      serviceAccountName: {name}
      containers:
        - name: upgrade
          # The image that runs now: it knows the REST API of the cluster.
          image: {_text(settings.image)}
          command: [penstock, kubernetes, upgrade, {name}]
          args:
            - --namespace={settings.namespace}
            - {_text(f"--image={image}")}
            - --manager={name}:{settings.port}
            - {_text(f"--savepoint-dir={settings.shared}/savepoints")}
          env:
{_token_variable(settings, 12)}
"""


def _head(settings: ClusterSettings) -> str:
    name, namespace = settings.name, settings.namespace
    what = "a session" if settings.program is None else settings.program
    s3 = (
        f"""
# The keys of S3, for the driver and its executors:
#   kubectl -n {namespace} create secret generic {name}-s3 \\
#     --from-literal=AWS_ACCESS_KEY_ID=... --from-literal=AWS_SECRET_ACCESS_KEY=..."""
        if settings.uses_s3
        else ""
    )
    return f"""\
# Penstock on Kubernetes: {what}, as '{name}' in namespace '{namespace}'.
#
# Before the first time, the token that clients of the REST API need:
#   kubectl -n {namespace} create secret generic {name}-token --from-literal=token="$(openssl rand -hex 32)"{s3}
#
# Then, and after every change:
#   kubectl apply -f {name}.yaml
#
# The page, and the command line from your machine:
#   kubectl -n {namespace} port-forward service/{name} {settings.port}:{settings.port}
#   export PENSTOCK_TOKEN="$(kubectl -n {namespace} get secret {name}-token -o jsonpath='{{.data.token}}' | base64 -d)"
#   penstock list -m localhost:{settings.port}
"""


def _accounts(settings: ClusterSettings) -> str:
    name, namespace = settings.name, settings.namespace
    return f"""\
# Who the driver is. It starts executors as pods, and elects a leader with a Lease.
apiVersion: v1
kind: ServiceAccount
metadata: {{name: {name}, namespace: {namespace}, labels: {{app: {name}}}}}
---
# Who the executors are: they run user code, and need nothing of Kubernetes.
apiVersion: v1
kind: ServiceAccount
metadata: {{name: {name}-executor, namespace: {namespace}, labels: {{app: {name}}}}}
automountServiceAccountToken: false
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: {name}, namespace: {namespace}, labels: {{app: {name}}}}}
rules:
  # Spark: executors, their configuration, and what it looks for and deletes when the application ends.
  - apiGroups: [""]
    resources: [pods, services, configmaps, persistentvolumeclaims]
    verbs: [get, list, watch, create, update, patch, delete, deletecollection]
  # The leader's lease. 'create' cannot be limited to a name.
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    verbs: [create]
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    resourceNames: [{name}-leader]
    verbs: [get, update]
  # The upgrade gives this one Deployment another image.
  - apiGroups: [apps]
    resources: [deployments]
    resourceNames: [{name}]
    verbs: [get, patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: {name}, namespace: {namespace}, labels: {{app: {name}}}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: {name}}}
subjects:
  - {{kind: ServiceAccount, name: {name}, namespace: {namespace}}}
"""


def _configuration(settings: ClusterSettings) -> str:
    lines = "".join(
        f"    {key}: {_text(value)}\n" for key, value in settings.configuration().items()
    )
    return f"""\
# The options of the cluster. 'penstock config' shows what each of them means; a change needs
#   kubectl -n {settings.namespace} rollout restart deployment {settings.name}
apiVersion: v1
kind: ConfigMap
metadata: {{name: {settings.name}-config, namespace: {settings.namespace}, labels: {{app: {settings.name}}}}}
data:
  penstock.yaml: |
{lines}"""


def _volume(settings: ClusterSettings) -> str:
    storage_class = (
        "  # Without storageClassName: the cluster's default class. It must offer ReadWriteMany.\n"
        if settings.storage_class is None
        else f"  storageClassName: {_text(settings.storage_class)}\n"
    )
    return f"""\
# Checkpoints, savepoints, and what JobManagers share: the driver, its standbys and all executors write here, from any node.
# Deleting this claim deletes the state of all jobs.
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {settings.name}-checkpoints, namespace: {settings.namespace}, labels: {{app: {settings.name}}}}}
spec:
  accessModes: [ReadWriteMany]
{storage_class}  resources:
    requests: {{storage: {settings.storage}}}
"""


def _service(settings: ClusterSettings) -> str:
    name = settings.name
    return f"""\
# The REST API and the page. Only the leader is ready, so only the leader is behind this address.
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: {settings.namespace}, labels: {{app: {name}}}}}
spec:
  selector: {{app: {name}, part: driver}}
  ports:
    - {{name: rest, port: {settings.port}, targetPort: rest}}
"""


def _driver(settings: ClusterSettings) -> str:
    name = settings.name
    if settings.bounded:
        head = f"""\
# The driver of a bounded program. A pod that fails is restarted and resumes from its last checkpoint.
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}, namespace: {settings.namespace}, labels: {{app: {name}}}}}
spec:
  backoffLimit: 20
"""
        restarts = "OnFailure"
    else:
        what = "program" if settings.program is not None else "session"
        head = f"""\
# The JobManager with its {what}: {settings.replicas} pods, of which one is the leader. The others are standbys; one of them resumes the
# jobs from their last checkpoints when the leader dies.
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: {settings.namespace}, labels: {{app: {name}}}}}
spec:
  replicas: {settings.replicas}
  # All old pods end before new ones start: two versions of a program never take turns.
  strategy: {{type: Recreate}}
  # Standbys are never ready, on purpose (see readinessProbe), so a rollout never looks complete.
  progressDeadlineSeconds: 2147483647
  selector:
    matchLabels: {{app: {name}, part: driver}}
"""
        restarts = "Always"
    return (
        head
        + f"""\
  template:
    metadata:
      labels: {{app: {name}, part: driver}}
    spec:
      serviceAccountName: {name}
      restartPolicy: {restarts}
      # Time to suspend the jobs; the leader then releases its lease at once.
      terminationGracePeriodSeconds: 30
      # The user 185 is spark in the images of Spark.
      securityContext: {{runAsNonRoot: true, runAsUser: 185, fsGroup: 185}}
      # Not two of them on one node, if that can be.
      affinity:
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
            - weight: 100
              podAffinityTerm:
                topologyKey: kubernetes.io/hostname
                labelSelector:
                  matchLabels: {{app: {name}, part: driver}}
      containers:
        - name: {DRIVER}
          image: {_text(settings.image)}
          command: {_command(settings)}
          args:
            # Executors connect to this pod, are deleted with it, and have its image.
            - -D
            - spark.driver.host=$(POD_IP)
            - -D
            - spark.kubernetes.driver.pod.name=$(POD_NAME)
            - -D
            - spark.kubernetes.container.image=$({IMAGE_VARIABLE})
            # The address to which standbys redirect clients if this pod is the leader.
            - -D
            - rest.address=$(POD_IP)
{_program(settings)}          env:
            - {{name: PENSTOCK_CONFIG, value: /etc/penstock/penstock.yaml}}
            - {{name: {IMAGE_VARIABLE}, value: {_text(settings.image)}}}
            - {{name: HOME, value: /tmp}}
            - name: POD_IP
              valueFrom: {{fieldRef: {{fieldPath: status.podIP}}}}
            - name: POD_NAME
              valueFrom: {{fieldRef: {{fieldPath: metadata.name}}}}
{_token_variable(settings, 12)}
{_s3_variables(settings)}          ports:
            - {{name: rest, containerPort: {settings.port}}}
          # It answers: it has started, or stands by.
          startupProbe:
            tcpSocket: {{port: rest}}
            periodSeconds: 2
            failureThreshold: 90
          livenessProbe:
            tcpSocket: {{port: rest}}
            periodSeconds: 10
            failureThreshold: 6
          # Ready if it is the leader: the Service routes only to it. This path needs no token and reveals nothing else.
          readinessProbe:
            httpGet: {{path: /penstock/leading, port: rest}}
            periodSeconds: 2
            failureThreshold: 1
          resources:
            requests: {{cpu: {_text(settings.driver_cpu)}, memory: {settings.driver_memory}}}
            limits: {{memory: {settings.driver_memory}}}
          volumeMounts:
            - {{name: config, mountPath: /etc/penstock}}
{_mounts(settings)}      volumes:
        - name: config
          configMap: {{name: {name}-config}}
{_volumes(settings)}"""
    )


def _command(settings: ClusterSettings) -> str:
    if settings.program is None:
        return "[penstock, session, start, --foreground]"
    return "[penstock, run]"


def _program(settings: ClusterSettings) -> str:
    words = () if settings.program is None else (settings.program, *settings.arguments)
    return "".join(f"            - {_text(word)}\n" for word in words)


def _token_variable(settings: ClusterSettings, indent: int) -> str:
    space = " " * indent
    reference = f"{{secretKeyRef: {{name: {settings.name}-token, key: token}}}}"
    return f"{space}- name: PENSTOCK_TOKEN\n{space}  valueFrom: {reference}"


def _s3_variables(settings: ClusterSettings) -> str:
    if not settings.uses_s3:
        return ""
    return f"""\
          envFrom:
            - secretRef: {{name: {settings.name}-s3}}
"""


def _mounts(settings: ClusterSettings) -> str:
    if settings.uses_s3:
        return ""
    return f"            - {{name: checkpoints, mountPath: {MOUNT}}}\n"


def _volumes(settings: ClusterSettings) -> str:
    if settings.uses_s3:
        return ""
    claim = f"{{claimName: {settings.name}-checkpoints}}"
    return f"        - name: checkpoints\n          persistentVolumeClaim: {claim}\n"


def _text(value: str) -> str:
    """Return a text as YAML reads it back, whatever is in it."""
    return json.dumps(value)


def image_patch(image: str) -> Mapping[str, object]:
    """Return the change of a Deployment that gives the driver and its executors another image."""
    container = {
        "name": DRIVER,
        "image": image,
        "env": [{"name": IMAGE_VARIABLE, "value": image}],
    }
    return {"spec": {"template": {"spec": {"containers": [container]}}}}
