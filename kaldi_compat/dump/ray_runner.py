"""Write the archives of a plan in tasks of a Ray cluster, whose nodes share a directory and may fail.

A task reads and writes the shared directory directly, and sends only a few numbers through Ray. If a node fails, Ray
runs its tasks again on another node. This is safe, since an archive gets its name only when it is complete.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from io_ark.extras import format_missing_package
from kaldi_compat.dump.devices import prepare_device
from kaldi_compat.dump.errors import DumpError, OutputError, convert_to_user_error, format_error
from kaldi_compat.dump.model import MAX_MESSAGE_CHARACTERS, must_compare_extractor
from kaldi_compat.dump.options import CPU, PITCH_CONF, PROCESS_CONF, Job, Layout
from kaldi_compat.dump.plan import DumpPlan, Shard
from kaldi_compat.dump.progress import Monitor
from kaldi_compat.dump.shard import ShardRunner
from kaldi_compat.dump.write import read_manifest

RETRIES = 5
SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_TO_CONNECT = 10.0


def write_archives_on_ray(job: Job, plan: DumpPlan, shards: Sequence[Shard], monitor: Monitor) -> None:
    """Write the archives of ``shards`` on a Ray cluster. Without ``shards``, only compare the extractor, if necessary.

    Connect to the cluster at ``--address`` unless this process is connected to a cluster already. Raise
    :class:`DumpError` if the cluster cannot be reached or a task fails.
    """
    import ray

    must_connect = not ray.is_initialized()
    if must_connect:
        address = job.options.address
        with _convert_connection_errors(address):  # The address "local" starts a cluster on this machine.
            ray.init(address=None if address == "local" else address, log_to_driver=False, configure_logging=False)
    try:
        _run_tasks(ray, make_paths_absolute(job), plan, shards, monitor)
    finally:
        if must_connect:
            ray.shutdown()


@contextlib.contextmanager
def _convert_connection_errors(address: str) -> Iterator[None]:
    """Convert an error in connecting to ``address`` in the ``with`` block to a :class:`DumpError`."""
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        fault = f"no Ray cluster at --address={address}: {format_error(error)}"
        raise DumpError(f"{fault}: start a cluster, or correct the address") from None


def check_cluster(address: str) -> None:
    """Raise :class:`DumpError` if Ray is not installed, or if ``address`` has a port that cannot be reached."""
    if find_spec("ray") is None:
        raise DumpError(format_missing_package("ray", "--runner=ray"))
    host, colon, port = address.rpartition("//")[2].rpartition(":")
    if colon and port.isdecimal():  # Ray itself would report a refused connection later.
        with _convert_connection_errors(address):
            socket.create_connection((host, int(port)), SECONDS_TO_CONNECT).close()


def make_paths_absolute(job: Job) -> Job:
    """Make the paths of a job's directories and configuration files absolute, because workers run in other folders."""
    layout, names = job.layout, (f"{job.spectral}.conf", PITCH_CONF, PROCESS_CONF)
    paths = {name: os.path.abspath(path) for name, path in job.conf_paths.items() if path}
    conf, pitch, process = (paths.get(name, "") for name in names)
    options = replace(job.options, conf=conf, pitch_conf=pitch, pitch_postprocess_conf=process)
    absolute_layout = Layout(layout.data.absolute(), layout.feature, layout.log.absolute(), layout.archives)
    return replace(job, layout=absolute_layout, options=options)


def _run_tasks(ray: Any, job: Job, plan: DumpPlan, shards: Sequence[Shard], monitor: Monitor) -> None:
    """Write each shard in a task of the cluster. If a task fails, cancel the other tasks and raise DumpError.

    Without ``shards``, only compare the extractor with the plan, if necessary.
    """
    task = ray.remote(num_cpus=1, num_gpus=int(job.options.on_gpu), max_retries=RETRIES, scheduling_strategy="SPREAD")(
        make_archive
    )
    # Workers resolve the relative paths in wav.scp against the working directory of the job.
    directory = os.getcwd()
    if not shards and must_compare_extractor(job):
        if message := _get_result(ray, task.remote(job, plan, None, directory), "the extractor was not compared"):
            raise DumpError(message)
        return
    shards_by_reference = {task.remote(job, plan, shard, directory): shard for shard in shards}
    try:
        while shards_by_reference:
            finished_references, _ = ray.wait(list(shards_by_reference), timeout=SECONDS_BETWEEN_LOOKS)
            for reference in finished_references:
                shard = shards_by_reference.pop(reference)
                message = _get_result(ray, reference, f"archive {shard.number} was not written")
                manifest = read_manifest(job.layout, shard.number)
                if message or manifest is None:
                    raise OutputError(
                        message
                        or f"{job.layout.get_archive(shard.number)} is missing or has changed on this node's disk: "
                        "use a directory that all nodes share"
                    )
                monitor.record_complete_archive(manifest)
    finally:
        for reference in shards_by_reference:
            ray.cancel(reference, force=True)


def _get_result(ray: Any, reference: Any, fault: str) -> str:
    """Return a task's error message, or "" on success. Raise DumpError with ``fault`` if Ray could not run the task."""
    try:
        return str(ray.get(reference))
    except (ray.exceptions.RayError, OSError) as error:
        reason = format_error(error)[:MAX_MESSAGE_CHARACTERS]
        raise DumpError(f"{fault}: {reason}: run the job again with --resume") from None


# Runners by job and plan. A worker process of Ray writes many archives, and keeps the runner open between them.
_runners: dict[str, ShardRunner] = {}


def make_archive(job: Job, plan: DumpPlan, shard: Shard | None, directory: str) -> str:
    """Write the archives of a shard in a Ray task unless they are complete. Return an error message, or "" on success.

    Errors are returned, because Ray would wrap a raised error in a RayError, as if it could not run the task. If
    ``shard`` is None, only compare the extractor with the plan. Change to ``directory``, the job's working directory.
    """
    os.chdir(directory)
    if shard and read_manifest(job.layout, shard.number) is not None:
        return ""
    # Ray shows each worker only the GPU that it assigns to the worker, and CUDA numbers this GPU 0.
    device = "cuda:0" if job.options.on_gpu else CPU
    runner_key = f"{job} {plan.settings}"
    try:
        if runner_key not in _runners:
            prepare_device(device, job.options.max_device_memory)
            _runners[runner_key] = ShardRunner(job, plan, device, owns_process=True)
        if shard:
            _runners[runner_key](shard)
    except Exception as error:
        return str(convert_to_user_error(error))
    return ""
