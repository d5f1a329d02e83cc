"""Launching kernels: nothing waits for the device, memory is bounded, and processes compile one after the other."""

from __future__ import annotations

import subprocess
import sys
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("triton", minversion="3.6")

from kaldi_compat import Fbank
from kaldi_compat.options.spectral import FbankOptions
from kaldi_compat.torch import kernels
from kaldi_compat.torch.features import spectral
from kaldi_compat.torch.kernels import launch
from kaldi_compat.torch.tensors import constants


def test_copies_to_a_device_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy from memory that is not pinned waits for all work that is queued on the device."""
    pinned = torch.ones(2)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    copies: list[tuple[int, dict[str, Any]]] = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: pinned)
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda self: self is pinned)
    monkeypatch.setattr(torch.Tensor, "to", lambda self, *_, **options: copies.append((id(self), options)))
    launch.to_device(torch.zeros(2), torch.device("cuda:0"))
    assert copies == [(id(pinned), {"non_blocking": True})]


def test_a_captured_graph_copies_nothing_from_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay would read memory that has been freed since."""
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(RuntimeError, match="CUDA graph"):
        launch.to_device(torch.zeros(2), torch.device("cuda:0"))


class Recorder:
    """A kernel that only keeps its arguments."""

    def __init__(self) -> None:
        self.launches: list[tuple[Any, ...]] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        return lambda *args, **constants: self.launches.append((grid, *args))


def test_tables_of_a_captured_graph_outlive_the_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its replays read them where they were, however many VTLN factors have been met since."""
    kernel = Recorder()
    monkeypatch.setattr(launch, "feature_kernel", kernel)
    monkeypatch.setattr(launch, "is_capturing", lambda device: True)
    monkeypatch.setattr(launch, "_captured", [])
    launch.launch_features(Fbank(dither=0.0), torch.zeros(999), None, 0.917)
    launch._get_filters.cache_clear()
    launch._make_tables.cache_clear()
    read = [weakref.ref(each) for each in kernel.launches.pop() if isinstance(each, torch.Tensor)]
    assert sum(each() is not None for each in read) == 8  # three of filters, factors, and bins, in place of others too


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_lengths_of_each_type_take_the_code_that_was_tried(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> None:
    kernel = Recorder()
    monkeypatch.setattr(launch, "feature_kernel", kernel)
    module = Fbank(dither=0.0, snip_edges=False)
    launch.launch_features(module, torch.zeros((2, 999)), torch.tensor([999, 500], dtype=dtype), 1.0)
    assert kernel.launches[0][2].dtype == torch.int64


def test_filter_banks_of_factors_met_later_are_added_in_the_same_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "MAX_BANKS", 4)
    table = launch.FilterTable(Fbank, FbankOptions(), torch.device("cpu"))
    made: list[int] = []
    filters_of_warps = launch._make_filters

    def counted(kind: Any, options: Any, warps: list[float], least: Sequence[int] = ()) -> launch.BandFilters:
        made.append(len(warps))
        return filters_of_warps(kind, options, warps, least)

    monkeypatch.setattr(launch, "_make_filters", counted)
    # The third is wider than all before; the fifth is one too many.
    for warps, work in (([0.9, 1.0], [2]), ([1.0, 0.9, 1.0], []), ([1.2], [1, 3]), ([1.1], [1]), ([0.8, 1.0], [2])):
        made.clear()
        filters, numbers = table.find_banks(warps)
        assert made == work
        for warp, number in zip(warps, numbers.tolist(), strict=True):
            rows = filters.group_rows.diff().tolist()
            alone = filters_of_warps(Fbank, FbankOptions(), [warp], rows)
            assert torch.equal(filters.first_bins[number], alone.first_bins[0])
            assert torch.equal(filters.weights[number], alone.weights[0])


def test_noise_and_filter_banks_are_copied_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[tuple[int, ...]] = []
    to_device = launch.to_device

    def counted(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
        copied.append(tuple(tensor.shape))
        return to_device(tensor, device)

    monkeypatch.setattr(launch, "to_device", counted)
    device = torch.device("cpu")
    launch._make_noise(1.0, 2, 50, None, None, device)  # the seed of the generator
    launch._make_noise(1.0, 2, 50, None, kernels.KaldiRandom(), device)  # a state for each frame
    launch.FilterTable(Fbank, FbankOptions(), device).find_banks([0.913, 1.087])
    assert copied[:2] == [(1,), (2, 50)] and len(copied[2:]) == 3 and (2, 32) in copied


def test_filter_bank_of_a_vtln_factor_is_copied_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[tuple[int, ...]] = []
    monkeypatch.setattr(constants, "to_device", lambda tensor, device: copied.append(tuple(tensor.shape)) or tensor)
    Fbank(dither=0.0)._get_filter_bank(0.917)
    assert copied == [(257, 23)]


@pytest.mark.parametrize("lengths", [[1000, 500], torch.tensor([1000, 500])], ids=["list", "tensor"])
@pytest.mark.parametrize("by_kernels", [False, True])
def test_kaldis_noise_does_not_wait_for_lengths_that_the_host_knows(
    lengths: Any, by_kernels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To read a number of a tensor on this device is an error, where a GPU would be waited for."""
    device = torch.device("meta")
    module, samples = Fbank(dither=1.0).to(device), torch.zeros((2, 1000), dtype=torch.int16, device=device)
    seeds: list[torch.Tensor | None] = []

    def computed(module: Fbank, rows: torch.Tensor, lengths: torch.Tensor, count: int, *rest: Any) -> torch.Tensor:
        assert lengths.device == device
        seeds.append(rest[1].seeds)
        return torch.empty((len(rows) * count, 23), device=device)

    if by_kernels:
        monkeypatch.setattr(kernels, "DEVICE_TYPE", "meta")
        monkeypatch.setattr(kernels, "_find_fault", lambda *_: "")
        monkeypatch.setattr(launch, "_launch_kernel", computed)
    features, counts = module(samples, lengths, generator=kernels.KaldiRandom())
    assert features.shape == (2, 4, 23) and features.device == counts.device == device
    assert [None if each is None else each.shape.numel() for each in seeds] == [8] * by_kernels
    with pytest.raises(NotImplementedError, match="no data"):
        module(samples, torch.tensor([1000, 500], device=device), generator=kernels.KaldiRandom())


def test_many_vtln_factors_need_one_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Recorder()
    monkeypatch.setattr(launch, "feature_kernel", kernel)
    module, row = Fbank(dither=0.0), torch.zeros(400 + 160 * 199, dtype=torch.int16)
    spans = launch.Spans(10 * np.arange(20), [0.9 + 0.01 * i for i in range(20)])
    assert launch.launch_row(module, row, spans, None).shape == (200, 23)
    assert len(kernel.launches) == 1


def test_plain_operations_work_on_a_bounded_number_of_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectral, "DEVICE_BLOCK", 64)
    monkeypatch.setattr(spectral, "BLOCK", 64)
    seen: list[int] = []
    features = Fbank._compute_frames

    def counted(self: Fbank, frames: torch.Tensor, *arguments: Any) -> torch.Tensor:
        seen.append(frames.shape[:-1].numel())
        return features(self, frames, *arguments)

    monkeypatch.setattr(Fbank, "_compute_frames", counted)
    module = Fbank(dither=0.0, engine="torch")
    assert module(torch.zeros(2, 16000 * 5)).shape == (2, 498, 23)
    assert sum(seen) == 2 * 498 and max(seen) <= 64 * torch.get_num_threads()
    seen.clear()
    module.to("meta")(torch.zeros((2, 16000 * 5), device="meta", dtype=torch.int16))
    assert sum(seen) == 2 * 498 and max(seen) == 64


HOLD = """
import sys, time
from kaldi_compat.torch.kernels import lock_compilation
with lock_compilation(sys.argv[1]):
    print("begin", time.time(), flush=True)
    time.sleep(0.5)
    print("end", time.time(), flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock")
def test_processes_compile_the_same_kernel_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    with kernels.lock_compilation("another kernel"):  # for which they do not wait
        line = [sys.executable, "-c", HOLD, "a kernel"]
        running = [subprocess.Popen(line, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        times = [[float(each.split()[1]) for each in process.communicate()[0].splitlines()] for process in running]
    first, second = sorted(times)
    assert first[1] <= second[0]


def test_compiling_needs_no_place_for_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "file" / "cache"))
    begun = time.monotonic()
    with kernels.lock_compilation(0):
        assert time.monotonic() - begun < 60
