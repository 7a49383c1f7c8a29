"""Which cluster of Kubernetes is meant: that of the pod, or that of a kubeconfig file."""

from __future__ import annotations

from typing import Any

from penstock.dependencies.extras import optional_module
from penstock.errors import ConfigurationError


def cluster_settings(config_file: str | None, *, needed_by: str, message: str, hint: str) -> Any:
    """Return the settings of the Kubernetes client.

    `config_file` is a kubeconfig file; without it the pod's service account is used, else $KUBECONFIG or ~/.kube/config. If there is no such
    cluster, the error has `message` and `hint`.
    """
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
        raise ConfigurationError(message, detail=str(error), hint=hint) from error
    return settings
