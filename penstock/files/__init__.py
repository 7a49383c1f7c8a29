"""One layer over local, Arrow and fsspec file systems."""
