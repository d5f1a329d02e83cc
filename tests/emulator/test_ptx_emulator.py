"""The emulator computes as a GPU would and finds faults, and the kernels' tests pass on code compiled for several."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.emulator.ptx_emulator import MACHINES, Emulated, Launch, Program, PtxError, fused, memory_of

ROOT = Path(__file__).parents[2]
# Each thread of a warp puts its number into shared memory, and stores its neighbour's.
EXCHANGE = """
.visible .entry exchange(
	.param .u64 .ptr .global .align 1 exchange_param_0
)
.reqntid 32
{
	mov.u32 	%r1, %tid.x;
	shl.b32 	%r2, %r1, 2;
	mov.b32 	%r3, global_smem;
	add.s32 	%r4, %r3, %r2;
	st.shared.b32 	[%r4], %r1;
	setp.ge.s32 	%p1, %r1, 16;
	bar.sync 	0;
	xor.b32 	%r5, %r2, 4;
	ld.shared.b32 	%r6, [%r5];
	ld.param.b64 	%rd1, [exchange_param_0];
	mad.wide.u32 	%rd2, %r1, 4, %rd1;
	st.global.b32 	[%rd2], %r6;
	ret;
}
"""
FAULTS = {
    "race": ("bar.sync 	0;", ""),
    "the threads arrives": ("bar.sync 	0;", "@%p1 bra $L1; bar.sync 0;\n$L1:\n"),
    "outside of all tensors": ("[%rd2]", "[%rd2+4]"),
    "outside of shared memory": ("[%r5]", "[%r5+128]"),
    "misaligned": ("[%rd2]", "[%rd2+2]"),
    "before it is set": ("%r5, %r2, 4", "%r5, %r9, 4"),
    "different values to one place": ("[%rd2]", "[%rd1]"),
    "AttributeError": ("xor.b32", "vote.b32"),
}


def exchanged(ptx: str) -> list[int]:
    """Return what a program writes to 32 numbers."""
    numbers = torch.zeros(32, dtype=torch.int32)
    Launch(Program(ptx), (1,), [numbers.data_ptr()], 128, memory_of([numbers]))
    return numbers.tolist()


def test_threads_exchange_numbers_through_shared_memory() -> None:
    assert exchanged(EXCHANGE) == [i ^ 1 for i in range(32)]


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_a_program_are_found(fault: str) -> None:
    before, after = FAULTS[fault]
    with pytest.raises(PtxError, match=fault):
        exchanged(EXCHANGE.replace(before, after))


def test_pairs_of_numbers_are_computed_each_for_itself() -> None:
    """Cards from compute capability 10.0 on have such instructions; a half may be undefined."""
    pairs = EXCHANGE.replace(
        "xor.b32 \t%r5, %r2, 4;",
        "mov.b64 %rd3, {%r1, %r9}; add.rn.f32x2 %rd4, %rd3, %rd3; mov.b64 {%r7, %r8}, %rd4; xor.b32 %r5, %r2, 4;",
    ).replace("[%rd2], %r6", "[%rd2], %r7")
    numbers = np.arange(32, dtype=np.int32).view(np.float32)
    assert exchanged(pairs) == (numbers + numbers).view(np.int32).tolist()


@given(st.tuples(*[st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-1e9, max_value=1e9)] * 3))
def test_fused_multiply_add_rounds_once(numbers: tuple[float, float, float]) -> None:
    x, y, z = (np.float32(each) for each in numbers)
    exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
    (found,) = fused(*(np.array([each], np.float32) for each in (x, y, z)))
    nearest = min(
        (np.nextafter(found, to) for to in np.float32([found, -np.inf, np.inf])),
        key=lambda n: abs(Fraction(float(n)) - exact),
    )
    assert abs(Fraction(float(found)) - exact) <= abs(Fraction(float(nearest)) - exact)


@pytest.mark.parametrize("kind", ["race", "outside of all tensors"])
def test_faults_of_a_compiled_kernel_are_found(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if request.config.getoption("--machine") == MACHINES[0]:
        pytest.skip("needs compiled kernels: --machine sm_90")
    from kaldi_compat import Fbank
    from kaldi_compat.torch.kernels import launch

    def without_barriers(ptx: str) -> str:
        return "\n".join(line for line in ptx.split("\n") if not line.strip().startswith("bar."))

    module, row = Fbank(dither=0.0, num_mel_bins=10, sample_frequency=4000.0), torch.zeros(500, dtype=torch.int16)
    kernel = launch.feature_kernel.kernel
    monkeypatch.setattr(
        launch, "feature_kernel", Emulated(kernel, without_barriers) if kind == "race" else Emulated(kernel)
    )
    if kind != "race":  # a frame more than there is room for
        monkeypatch.setattr(launch, "count_frames", lambda *size: 12)
    with pytest.raises(PtxError, match=kind):
        launch.launch_features(module, row, None, 1.0)


# A kernel of mel energies and one that compresses, both small.
FEW = "compiled_kernel or program_computed_before and 4000 or have_no_codes and 2"


@pytest.mark.costly
@pytest.mark.parametrize(
    ("machine", "chosen", "least"),
    [("sm_90", FEW, 4), *(pytest.param(each, "", 60, marks=pytest.mark.slow) for each in MACHINES[1:])],
)
def test_tests_of_kernels_pass_on_compiled_code(machine: str, chosen: str, least: int) -> None:
    pytest.importorskip("triton", minversion="3.6")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    folders = "tests/kaldi_compat/torch/kernels", "tests/emulator"
    command = [sys.executable, "-m", "pytest", *folders, "--machine", machine]
    deselected = ["compile_without_spilling", "on_compiled_code", "the_benchmark_runs", "launch.py"]
    chosen = " and ".join([f"({chosen})"] * bool(chosen) + [f"not {each}" for each in deselected])
    done = subprocess.run([*command, "-k", chosen], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    *_, counts, outcome = (line for line in done.stdout.splitlines() if machine in line or "passed" in line)
    assert "no race" in counts and int(outcome.split(" passed")[0].split()[-1]) >= least, outcome
    print(counts)
