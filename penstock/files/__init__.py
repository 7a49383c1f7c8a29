"""One layer over local, Arrow and fsspec file systems, for checkpoints and connectors alike.

`paths` knows what paths and URIs mean, `resolve` (in `opening`) finds the file system of one, and `FileSystem` is what can be
done there: every call is tried again if its failure may pass (`retries`), and fails with an error that says what was done to
which file and what to do about it (`errors`). Importing this loads no large library: pyarrow comes with the first remote URI.
"""
