"""A local S3 server: moto in server mode, which fsspec's ``s3://`` is pointed at, in subprocesses as well."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def s3_bucket() -> Iterator[str]:
    """Serve an empty bucket, and yield its URL. Skips the test if moto or s3fs is not installed."""
    pytest.importorskip("s3fs")
    moto = pytest.importorskip("moto.server")
    import fsspec
    import fsspec.config

    server = moto.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {"endpoint_url": f"http://{host}:{port}", "key": "k", "secret": "s"}
    names = {name: f"FSSPEC_S3_{name.upper()}" for name in settings}  # read by fsspec in new processes
    fsspec.config.conf["s3"] = settings
    os.environ.update({names[name]: value for name, value in settings.items()})
    try:
        bucket = f"bucket-{uuid.uuid4()}"  # moto keeps its buckets in this process, whichever server made them
        fsspec.filesystem("s3").mkdir(bucket)
        yield f"s3://{bucket}"
    finally:
        for name in names.values():
            del os.environ[name]
        del fsspec.config.conf["s3"]
        fsspec.filesystem("s3").clear_instance_cache()
        server.stop()
