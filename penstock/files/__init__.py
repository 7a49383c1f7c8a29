"""A common layer over local, Arrow and fsspec file systems, used by checkpoints and connectors.

`paths` parses and joins paths and URIs, `resolve` (in `opening`) finds the file system of a URI, and `FileSystem` has the
file
operations. Transient failures are retried (`retries`); other failures raise an error that names the operation, the file
and a
remedy (`errors`). Importing this package loads no large library: pyarrow is imported for the first remote URI.
"""
