"""Conditional writes on S3: an object is written only if there is none (`If-None-Match: *`).

pyarrow has no conditional requests, so boto3 makes them, if it is installed. With them, of two drivers that write the same manifest
exactly one succeeds, however long the other one was suspended before its request.
"""

from __future__ import annotations

import errno
import importlib.util
import logging
import os
from collections.abc import Callable
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit

from penstock.dependencies.distribution import install_command

_log = logging.getLogger(__name__)

_SCHEMES: Final = frozenset({"s3", "s3a", "s3n"})
_ENDPOINT_VARIABLES: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_TAKEN: Final = 412
_CONFLICT: Final = 409  # another conditional write of the same object is under way
_NOT_SUPPORTED: Final = 501
_FORBIDDEN: Final = frozenset({401, 403})

#: Returns whether it has written the object at a path; None if the store has no conditional writes
ConditionalPut: TypeAlias = Callable[[str, bytes], bool | None]

_clients: dict[tuple[Any, ...], Any] = {}
_reported: set[str] = set()


def conditional_put(uri: str) -> ConditionalPut | None:
    """Return what writes objects of the bucket of a URI that do not exist yet; None if it is not on S3."""
    parts = urlsplit(uri)
    if parts.scheme not in _SCHEMES:
        return None
    bucket = parts.netloc.rpartition("@")[2]

    def put(path: str, data: bytes) -> bool | None:
        if importlib.util.find_spec("boto3") is None:
            _report_once(
                bucket, f"boto3 is not installed: {install_command('s3')} makes them conditional"
            )
            return None
        return _put(_client(uri), bucket, path.partition("/")[2], data)

    return put


def _put(client: Any, bucket: str, key: str, data: bytes) -> bool | None:
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

    try:
        client.put_object(Bucket=bucket, Key=key, Body=data, IfNoneMatch="*")
    except ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        if status == _TAKEN:
            return False
        if status == _NOT_SUPPORTED:
            _report_once(bucket, str(error))
            return None
        if status in _FORBIDDEN:
            raise PermissionError(errno.EACCES, str(error)) from error
        code = errno.EAGAIN if status == _CONFLICT or status >= 500 else errno.EINVAL
        raise OSError(code, str(error)) from error
    except NoCredentialsError as error:
        _report_once(bucket, f"boto3 has no credentials: {error}")
        return None
    except BotoCoreError as error:
        raise OSError(errno.EIO, str(error)) from error
    return True


def _client(uri: str) -> Any:
    """Return the client of a bucket, with what its URI and the environment say; one in each process."""
    parts = urlsplit(uri)
    options = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    key = (os.getpid(), parts.netloc, parts.query, *sorted(_aws_variables().items()))
    if key not in _clients:
        import boto3
        from botocore.config import Config

        endpoint = options.get("endpoint_override")
        if endpoint is not None and "://" not in endpoint:
            endpoint = f"{options.get('scheme', 'https')}://{endpoint}"
        given: dict[str, Any] = {}
        if parts.username:
            given["aws_access_key_id"] = unquote(parts.username)
            given["aws_secret_access_key"] = unquote(parts.password or "")
        if "tls_ca_file_path" in options:
            given["verify"] = options["tls_ca_file_path"]
        if options.get("tls_verify_certificates") == "false":
            given["verify"] = False
        elsewhere = endpoint or any(map(os.environ.get, _ENDPOINT_VARIABLES))
        # Stores other than Amazon's seldom have a host name for each bucket.
        style = {"addressing_style": "path"} if elsewhere else {}
        region = options.get("region")
        config = Config(s3=style, retries={"total_max_attempts": 1})  # `FileSystem` tries again
        session = boto3.session.Session()
        _clients[key] = session.client(
            "s3", endpoint_url=endpoint, region_name=region, config=config, **given
        )
    return _clients[key]


def _aws_variables() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key.startswith("AWS_")}


def _report_once(bucket: str, reason: str) -> None:
    if bucket not in _reported:
        _reported.add(bucket)
        _log.info("writes to the bucket '%s' are not conditional: %s", bucket, reason)
