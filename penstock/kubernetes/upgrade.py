"""Gives a running cluster another image."""

from __future__ import annotations

from penstock.errors import ConnectionFailedError
from penstock.kubernetes.cluster import cluster_settings
from penstock.kubernetes.manifests import image_patch


def set_image(
    name: str, image: str, *, namespace: str = "default", config_file: str | None = None
) -> None:
    """Let the driver of a cluster and its executors run with another image: its pods end, and new ones resume the jobs.

    `config_file` is a kubeconfig file; without it the pod's service account counts, else $KUBECONFIG or ~/.kube/config.
    """
    settings = cluster_settings(
        config_file,
        needed_by="penstock kubernetes upgrade",
        message="no Kubernetes configuration found",
        hint="run it in a pod with a service account, or give a kubeconfig file with --kubeconfig",
    )
    from kubernetes.client import ApiClient, AppsV1Api

    try:
        with ApiClient(settings) as connection:
            AppsV1Api(connection).patch_namespaced_deployment(name, namespace, image_patch(image))
    except Exception as error:
        raise ConnectionFailedError(
            f"cannot change the image of Deployment '{name}' in namespace '{namespace}'",
            detail=f"{type(error).__name__}: {error}",
        ) from error
