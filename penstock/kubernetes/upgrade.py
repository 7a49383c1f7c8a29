"""Gives a running cluster another image."""

from __future__ import annotations

from penstock.common.extras import optional_module
from penstock.errors import ConfigurationError, ConnectionFailedError
from penstock.kubernetes.manifests import image_patch


def set_image(
    name: str, image: str, *, namespace: str = "default", config_file: str | None = None
) -> None:
    """Let the driver of a cluster and its executors run with another image: its pods end, and new ones go on.

    `config_file` is a kubeconfig file; without it the pod's service account counts, else $KUBECONFIG or ~/.kube/config.
    """
    needed_by = "penstock kubernetes upgrade"
    client = optional_module("kubernetes.client", extra="kubernetes", needed_by=needed_by)
    config = optional_module("kubernetes.config", extra="kubernetes", needed_by=needed_by)
    settings = client.Configuration()
    try:
        if config_file is not None:
            config.load_kube_config(config_file, client_configuration=settings)
        else:
            try:
                config.load_incluster_config(client_configuration=settings)
            except config.ConfigException:
                config.load_kube_config(client_configuration=settings)
    except (config.ConfigException, OSError) as error:
        raise ConfigurationError(
            "no cluster of Kubernetes is known here",
            detail=str(error),
            hint="run it in a pod with a service account, or name a kubeconfig file with --kubeconfig",
        ) from error
    try:
        with client.ApiClient(settings) as connection:
            client.AppsV1Api(connection).patch_namespaced_deployment(
                name, namespace, image_patch(image)
            )
    except Exception as error:
        raise ConnectionFailedError(
            f"the Deployment '{name}' in namespace '{namespace}' still has its image",
            detail=f"{type(error).__name__}: {error}",
        ) from error
