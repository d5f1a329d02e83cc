"""Execute the PTX of compiled Triton kernels on the CPU, with NumPy, in place of a GPU.

All threads of a launch advance in lockstep; those at the earliest instruction go first. This shows what Triton's
interpreter cannot: what the compiler made of a kernel (fused multiply-adds, flushed subnormals, exchanges between
lanes, 32-bit addresses). It raises :class:`PtxError` for addresses outside of tensors, misaligned accesses, barriers
that a part of the threads reaches, registers and shared memory that nothing has set, and races: words that two threads
touch, one of them writing, without a barrier in between. It says nothing of time, streams, allocators or drivers.

    pytest tests/kaldi_compat/torch/kernels --machine sm_90

runs the tests of the kernels so.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

MACHINES = ("interpreter", "sm_75", "sm_80", "sm_90", "sm_100", "sm_120")
WARP = 32
NOBODY, SEVERAL = -1, -2  # in place of a thread
# Larger tensors are not watched for races.
MAX_WATCHED_BYTES = 1 << 26
UNSET = 0xCD  # byte of shared memory that was not written
TYPES: dict[str, Any] = {
    "b8": np.uint8, "u8": np.uint8, "s8": np.int8, "b16": np.uint16, "u16": np.uint16, "s16": np.int16,
    "b32": np.uint32, "u32": np.uint32, "s32": np.int32, "b64": np.uint64, "u64": np.uint64, "s64": np.int64,
    "f32": np.float32, "f32x2": np.float32, "f64": np.float64, "pred": np.bool_,
}  # fmt: skip
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
SIGNED = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
ROUNDINGS = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip
BITWISE = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
REDUCTIONS = BITWISE | {"add": np.add, "min": np.minimum, "max": np.maximum}
SHIFTS = {"shl": np.left_shift, "shr": np.right_shift}
# Instructions whose result is rounded once, to the type at their end.
ROUNDED: dict[str, Callable[..., Array]] = {
    "add": np.add, "sub": np.subtract, "neg": np.negative, "abs": np.abs, "sqrt": np.sqrt, "rcp": np.reciprocal,
    "min": np.fmin, "max": np.fmax, "rem": lambda x, y: np.fmod(x, np.where(y == 0, 1, y)),
}  # fmt: skip


class PtxError(Exception):
    """A kernel does what a GPU would punish, or what this machine does not know."""


class Address(NamedTuple):
    """An operand in brackets: a register or a name, and bytes behind it."""

    base: str
    offset: int


@dataclass(frozen=True)
class Instruction:
    """An instruction.

    Attributes:
        text: its line.
        guard: the predicate that threads need, and its value for those that do not execute it; None without one.
        opcode: its parts, such as ("ld", "global", "b32").
        operands: registers and numbers as text, addresses, and lists of these.
    """

    text: str
    guard: tuple[str, bool] | None
    opcode: tuple[str, ...]
    operands: list[Any]

    @property
    def type(self) -> Any:
        """NumPy's type for the last part of the opcode."""
        return TYPES[self.opcode[-1]]


class Program:
    """The instructions of a kernel's PTX.

    Attributes:
        threads: of a block.
        parameters: type and name of each.
        code: the instructions.
        labels: the instruction that each label stands before.
    """

    def __init__(self, ptx: str) -> None:
        head, body = ptx[ptx.index(".entry") :].split("\n{", 1)
        self.threads = int(re.findall(r"\.reqntid (\d+)", head)[0])
        self.parameters = re.findall(r"\.param \.(\w+)[^,\n)]*?(\w+_param_\d+)", head)
        self.code: list[Instruction] = []
        self.labels: dict[str, int] = {}
        for line in re.sub(r"//[^\n]*", "", body).split("\n"):
            text = line.strip()
            if text == "}":
                break
            if label := re.fullmatch(r"(\$\w+):", text):
                self.labels[label[1]] = len(self.code)
            elif text and text[0] not in ".{":
                self.code += map(parsed, filter(None, map(str.strip, text.split(";"))))
        self.entries = set(self.labels.values())
        # Bytes of the smallest access to each memory, at most a word: races are looked for in such units.
        accesses = [each for each in self.code if each.opcode[0] in ("ld", "st") and each.opcode[1] != "param"]
        self.units = {"global": 4, "shared": 4}
        for each in accesses:
            self.units[each.opcode[1]] = min(self.units[each.opcode[1]], each.type().itemsize)


def parsed(text: str) -> Instruction:
    """Parse an instruction.

    >>> parsed("@!%p1 ld.global.b32 { %r1 }, [ %rd2 + 4 ]").operands
    [['%r1'], Address(base='%rd2', offset=4)]
    """
    found = re.fullmatch(r"(?:@(!?)(%p\d+)\s+)?(\S+)\s*(.*)", text)
    assert found, text
    guard = (found[2], bool(found[1])) if found[2] else None
    operands = [_operand(each) for each in re.findall(r"\{[^}]*\}|\[[^]]*\]|[^,\s]+", found[4])]
    return Instruction(text, guard, tuple(found[3].split(".")), operands)


def _operand(text: str) -> Any:
    if text.startswith("{"):
        return [each.strip() for each in text[1:-1].split(",")]
    if text.startswith("["):
        base, _, offset = text[1:-1].replace(" ", "").partition("+")
        return Address(base, int(offset or 0))
    return text


def fused(x: Array, y: Array, z: Array) -> Array:
    """Return x * y + z of float32, rounded once.

    The product is exact in float64. Its sum with z is rounded to odd there, so that the second rounding is right.
    """
    product, addend = x.astype(np.float64) * y, z.astype(np.float64)
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)
    bits = total.view(np.uint64)
    inexact = (error != 0) & (bits & np.uint64(1) == 0) & np.isfinite(total)
    odd = np.where((error > 0) == (total > 0), bits + np.uint64(1), bits - np.uint64(1))
    return np.where(inexact, odd, bits).view(np.float64).astype(np.float32)


def flushed(x: Array) -> Array:
    """Return numbers of float32 with zeros in place of subnormal ones."""
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x)


@dataclass
class Touched:
    """The last threads that wrote and read each unit of a memory, and what they had passed by then.

    Threads of a block are ordered by barriers of the block, those of a warp also by barriers of the warp; blocks are
    not ordered at all.
    """

    units: int
    writer: Array = field(init=False)
    reader: Array = field(init=False)
    written: Array = field(init=False)
    read: Array = field(init=False)

    def __post_init__(self) -> None:
        self.writer, self.reader = (np.full(self.units, NOBODY) for _ in range(2))
        self.written, self.read = (np.zeros(self.units, np.int64) for _ in range(2))


class Launch:
    """A launch of a program, which runs at once.

    Args:
        program: the kernel.
        grid: number of blocks in each dimension.
        values: the parameters: numbers and addresses.
        shared: bytes of shared memory of a block.
        memory: storages that the kernel may touch, as bytes by their addresses.
    """

    def __init__(
        self, program: Program, grid: Sequence[int], values: Sequence[float], shared: int, memory: dict[int, Array]
    ) -> None:
        x, y, z = (*grid, 1, 1)[:3]
        self.program, self.memory = program, memory
        self.count = x * y * z * program.threads
        self.thread = np.arange(self.count)
        self.block = self.thread // program.threads
        self.lane = self.thread % WARP
        self.registers: dict[str, Array] = {
            name: np.broadcast_to(np.asarray(value, np.uint32), self.count)
            for name, value in {
                "%tid.x": self.thread % program.threads, "%ntid.x": program.threads, "%laneid": self.lane,
                "%ctaid.x": self.block % x, "%ctaid.y": self.block // x % y, "%ctaid.z": self.block // (x * y),
                "%nctaid.x": x, "%nctaid.y": y, "%nctaid.z": z,
            }.items()
        }  # fmt: skip
        self.parameters = {
            name: np.array(value, TYPES[kind]) for (kind, name), value in zip(program.parameters, values, strict=True)
        }
        self.shared = -(-max(shared, 16) // 16) * 16
        self.own = np.full(x * y * z * self.shared, UNSET, np.uint8)
        self.barriers = np.zeros((2, self.count), np.int64)  # of the block and of the warp that a thread has passed
        self.touched: dict[int, Touched] = {}
        self.executed = Counter[str]()
        with np.errstate(all="ignore"):
            self._run()

    def _run(self) -> None:
        code, entries = self.program.code, self.program.entries
        place = np.zeros(self.count, np.int64)  # the next instruction of each thread
        while (at := int(place.min())) < len(code):
            here = place == at
            while True:
                each = code[at]
                active = here
                if each.guard is not None:
                    predicate, negated = each.guard
                    active = here & (self.registers[predicate] ^ negated)
                self.executed[each.opcode[0]] += 1
                at += 1
                if each.opcode[0] in ("bra", "ret"):
                    place[here] = at
                    place[active] = self.program.labels[each.operands[0]] if each.operands else len(code)
                    break
                try:
                    getattr(self, f"_{each.opcode[0]}")(each, active)
                except (PtxError, KeyError, AttributeError) as error:
                    kind = type(error).__name__ if not isinstance(error, PtxError) else ""
                    raise PtxError(f"{each.text}: {kind} {error}") from error
                if at in entries:
                    place[here] = at
                    break

    # Operands

    def _get(self, name: str, kind: Any) -> Array:
        if name in self.registers:
            value, size = self.registers[name], np.dtype(kind).itemsize
            if value.dtype == bool or value.itemsize == size:
                return value if value.dtype == bool else value.view(kind)
            return value.astype(UNSIGNED[size]).view(kind)
        if name.startswith("%"):
            raise PtxError(f"{name} is read before it is set")
        if name == "global_smem":
            number = np.array(0, kind)
        elif name[:2] in ("0f", "0d"):
            number = np.array(int(name[2:], 16), UNSIGNED[4 if name[1] == "f" else 8]).view(kind)
        else:
            size = np.dtype(kind).itemsize
            number = np.array(int(name.rstrip("U"), 0) & ((1 << 8 * size) - 1), UNSIGNED[size]).view(kind)
        return np.broadcast_to(number, self.count)

    def _values(self, each: Instruction, kind: Any) -> list[Array]:
        """Return the operands behind the first one."""
        return [self._get(name, kind) for name in each.operands[1:]]

    def _put(self, name: str, value: Array, active: Array) -> None:
        """Set a register, which may be wider than the value: that is extended by its sign if it has one."""
        if name == "_":
            return
        prefix = name.rstrip("0123456789")
        width = {"%p": 0, "%rs": 2, "%r": 4, "%rd": 8}[prefix]
        if width:
            if value.itemsize < width:
                value = value.astype((SIGNED if value.dtype.kind == "i" else UNSIGNED)[width])
            elif value.itemsize > width:
                value = value.astype(UNSIGNED[width])
            value = np.ascontiguousarray(value).view(UNSIGNED[width])
        before = self.registers.get(name)
        self.registers[name] = value if before is None or active.all() else np.where(active, value, before)

    # Memory

    def _ld(self, each: Instruction, active: Array) -> None:
        to, source = each.operands
        if each.opcode[1] == "param":
            value = self.parameters[source.base]
            self._put(to, np.broadcast_to(value.view(UNSIGNED[value.itemsize]).view(each.type), self.count), active)
            return
        names = to if isinstance(to, list) else [to]
        values = [np.zeros(self.count, each.type) for _ in names]
        for words, threads, at in self._places(each, source, len(names), active):
            for i, value in enumerate(values):
                value[threads] = words[at + i]
        for name, value in zip(names, values, strict=True):
            self._put(name, value, active)

    def _st(self, each: Instruction, active: Array) -> None:
        to, source = each.operands
        names = source if isinstance(source, list) else [source]
        values = [self._get(name, each.type) for name in names]
        for words, threads, at in self._places(each, to, len(names), active):
            for i, value in enumerate(values):
                words[at + i] = value[threads]
                kind = UNSIGNED[words.itemsize]
                if (words[at + i].view(kind) != value[threads].view(kind)).any():
                    raise PtxError("threads write different values to one place")

    def _places(
        self, each: Instruction, address: Address, number: int, active: Array
    ) -> Iterator[tuple[Array, Array, Array]]:
        """Yield memories as words of an access's type, the threads that touch each, and their first words there."""
        threads = np.flatnonzero(active)
        size = each.type().itemsize
        wide = np.uint64 if address.base.startswith("%rd") else np.uint32
        at = self._get(address.base, wide)[threads].astype(np.int64) + address.offset
        if (at % (size * number)).any():
            raise PtxError("a misaligned access")
        for start, data, chosen in self._memories(each, threads, at, size * number):
            first = at[chosen] - start
            if each.opcode[1] == "shared":
                first += self.block[threads[chosen]] * self.shared
            self._watch(start, data, threads[chosen], first, size * number, writes=each.opcode[0] == "st")
            if start % size:
                raise PtxError(f"a storage that does not begin at a multiple of {size}")
            yield data[: len(data) // size * size].view(each.type), threads[chosen], first // size

    def _memories(self, each: Instruction, threads: Array, at: Array, size: int) -> Iterator[tuple[int, Array, Array]]:
        if each.opcode[1] == "shared":
            if len(at) and (at.min() < 0 or at.max() + size > self.shared):
                raise PtxError("an address outside of shared memory")
            yield 0, self.own, np.arange(len(at))
            return
        left = np.ones(len(at), bool)
        for start, data in self.memory.items():
            inside = left & (at >= start) & (at + size <= start + len(data))
            if inside.any():
                left &= ~inside
                yield start, data, np.flatnonzero(inside)
        if left.any():
            start, data = min(self.memory.items(), key=lambda item: abs(int(at[left][0]) - item[0]))
            raise PtxError(
                f"{left.sum()} addresses outside of all tensors: {at[left][0] - start} bytes from the start of one of "
                f"{len(data)}"
            )

    def _watch(self, start: int, data: Array, threads: Array, first: Array, size: int, *, writes: bool) -> None:
        """Note who touches which units of a memory, and raise an error for a race."""
        if len(data) > MAX_WATCHED_BYTES:
            return
        unit = self.program.units["global" if start else "shared"]
        if start not in self.touched:
            self.touched[start] = Touched(len(data) // unit + 1)
        touched = self.touched[start]
        spans = size // unit
        words = (first[:, None] // unit + np.arange(spans)).reshape(-1)
        who = np.repeat(threads, spans)
        if self._unordered(touched.writer[words], touched.written[words], who).any():
            raise PtxError("a race: another thread has written without a barrier since")
        now = self._now(who)
        if writes:
            if self._unordered(touched.reader[words], touched.read[words], who).any():
                raise PtxError("a race: another thread has read without a barrier since")
            touched.writer[words], touched.written[words], touched.reader[words] = who, now, NOBODY
            return
        readers = touched.reader[words]
        again = (readers != NOBODY) & (readers != who) & (touched.read[words] >> 32 == now >> 32)
        touched.reader[words] = np.where(again, SEVERAL, who)
        touched.read[words] = now

    def _now(self, threads: Array) -> Array:
        return (self.barriers[0, threads] << 32) + self.barriers[1, threads]

    def _unordered(self, others: Array, then: Array, threads: Array) -> Array:
        """Return where no barrier stands between what others did then and what threads do now."""
        known, now = np.maximum(others, 0), self._now(threads)
        same_warp = (known // WARP == threads // WARP) & (others != SEVERAL)
        ordered = np.where(same_warp, then < now, then >> 32 < now >> 32)
        ordered &= (self.block[known] == self.block[threads]) | (others == SEVERAL)
        return (others != NOBODY) & (others != threads) & ~ordered

    def _ldmatrix(self, each: Instruction, active: Array) -> None:
        for name, words in zip(each.operands[0], self._rows(each, active, each.operands[1]), strict=True):
            value = np.zeros(self.count, np.uint32)
            value[active] = self.own.view(np.uint32)[words]
            self._put(name, value, active)

    def _stmatrix(self, each: Instruction, active: Array) -> None:
        for name, words in zip(each.operands[1], self._rows(each, active, each.operands[0]), strict=True):
            self.own.view(np.uint32)[words] = self._get(name, np.uint32)[active]

    def _rows(self, each: Instruction, active: Array, address: Address) -> Iterator[Array]:
        """Yield each thread's word in shared memory of each matrix of 8 rows of four words."""
        self._require_whole(active, WARP)
        if "trans" in each.opcode:
            raise PtxError("matrices are not transposed here")
        at = self._get(address.base, np.uint32).astype(np.int64) + address.offset
        for i in range(int(each.opcode[-3].removeprefix("x"))):
            # Lanes 8 i to 8 i + 7 give the addresses of the rows; four lanes have the words of a row.
            row = at[self.thread // WARP * WARP + 8 * i + self.lane // 4]
            if (row % 16).any() or row.min() < 0 or row.max() + 16 > self.shared:
                raise PtxError("a row that is misaligned or outside of shared memory")
            first = (self.block * self.shared + row + 4 * (self.lane % 4))[active]
            self._watch(0, self.own, self.thread[active], first, 4, writes=each.opcode[0] == "stmatrix")
            yield first // 4

    # Threads together

    def _require_whole(self, active: Array, size: int) -> None:
        groups = active.reshape(-1, size)
        if (groups.any(1) != groups.all(1)).any():
            raise PtxError("only a part of the threads arrives")

    def _bar(self, each: Instruction, active: Array) -> None:
        of_warp = each.opcode[1] == "warp"
        self._require_whole(active, WARP if of_warp else self.program.threads)
        self.barriers[int(of_warp), active] += 1

    _barrier = _bar

    def _shfl(self, each: Instruction, active: Array) -> None:
        self._require_whole(active, WARP)
        to, source, lanes, bounds, mask = each.operands
        if int(bounds, 0) != WARP - 1 or int(mask, 0) & 0xFFFFFFFF != 0xFFFFFFFF:
            raise PtxError("an exchange between a part of the lanes")
        other = self._get(lanes, np.uint32)
        chosen = {"idx": other % WARP, "bfly": self.lane ^ other}[each.opcode[2]]
        self._put(to.split("|")[0], self._get(source, np.uint32)[self.thread // WARP * WARP + chosen], active)

    def _redux(self, each: Instruction, active: Array) -> None:
        self._require_whole(active, WARP)
        values = self._get(each.operands[1], each.type).reshape(-1, WARP)
        self._put(each.operands[0], np.repeat(REDUCTIONS[each.opcode[2]].reduce(values, 1), WARP), active)

    # Arithmetic

    def _rounded(self, each: Instruction, active: Array, of: Callable[..., Array] | None = None) -> None:
        of = of or (REDUCTIONS if "NaN" in each.opcode else ROUNDED)[each.opcode[0]]
        pairs = each.opcode[-1] == "f32x2"  # of numbers, in registers of 64 bits
        values = self._values(each, np.uint64 if pairs else each.type)
        values = [np.ascontiguousarray(value).view(np.float32) for value in values] if pairs else values
        ftz = "ftz" in each.opcode
        result = of(*map(flushed, values) if ftz else values).astype(each.type)
        result = flushed(result) if ftz else result
        self._put(each.operands[0], result.view(np.uint64) if pairs else result, active)

    _add = _sub = _neg = _abs = _sqrt = _rcp = _rem = _min = _max = _rounded

    def _mad(self, each: Instruction, active: Array) -> None:
        """Multiply, and add a third operand if there is one; integers keep the low, the high or all bits."""
        kind = each.type
        if np.dtype(kind).kind == "f":
            self._rounded(each, active, np.multiply)
            return
        part, size = each.opcode[1], np.dtype(kind).itemsize
        double = (SIGNED if np.dtype(kind).kind == "i" else UNSIGNED).get(2 * size, kind)
        x, y = (self._get(name, kind) for name in each.operands[1:3])
        product = x * y if part == "lo" else x.astype(double) * y.astype(double)
        if part == "hi":
            product = (product >> double(8 * size)).astype(kind)
        for name in each.operands[3:]:
            product = product + self._get(name, product.dtype)
        self._put(each.operands[0], product, active)

    _mul = _mad

    def _fma(self, each: Instruction, active: Array) -> None:
        if each.type is np.float64:
            self._rounded(each, active, lambda x, y, z: x.astype(np.longdouble) * y + z)
        else:
            self._rounded(each, active, fused)

    def _div(self, each: Instruction, active: Array) -> None:
        def quotient(x: Array, y: Array) -> Array:
            if x.dtype.kind == "f":
                return x / y
            y = np.where(y == 0, 1, y)
            return np.where((x < 0) == (y < 0), 1, -1) * (np.abs(x.astype(np.int64)) // np.abs(y.astype(np.int64)))

        self._rounded(each, active, quotient)

    def _bitwise(self, each: Instruction, active: Array) -> None:
        x, y = self._values(each, each.type)
        self._put(each.operands[0], BITWISE[each.opcode[0]](x, y), active)

    _and = _or = _xor = _bitwise

    def _not(self, each: Instruction, active: Array) -> None:
        self._put(each.operands[0], ~self._values(each, each.type)[0], active)

    def _shift(self, each: Instruction, active: Array) -> None:
        x, bits = self._get(each.operands[1], each.type), 8 * np.dtype(each.type).itemsize
        number = self._get(each.operands[2], np.uint32)
        shift = SHIFTS[each.opcode[0]]
        moved = shift(x, np.minimum(number, bits - 1).astype(x.dtype))
        beyond = shift(moved, x.dtype.type(1))  # keeps the sign
        self._put(each.operands[0], np.where(number >= bits, beyond, moved), active)

    _shl = _shr = _shift

    def _shf(self, each: Instruction, active: Array) -> None:
        low, high, number = (each.astype(np.uint64) for each in self._values(each, np.uint32))
        number = number % np.uint64(32) if each.opcode[2] == "wrap" else np.minimum(number, np.uint64(32))
        both = high << np.uint64(32) | low
        number = np.uint64(32) - number if each.opcode[1] == "l" else number
        self._put(each.operands[0], (both >> number).astype(np.uint32), active)

    def _bfe(self, each: Instruction, active: Array) -> None:
        value, (first, bits) = self._get(each.operands[1], np.uint32), map(int, each.operands[2:])
        part = value >> np.uint32(first) & np.uint32((1 << bits) - 1)
        if each.type is np.int32:
            sign = np.uint32(1 << (bits - 1))
            part = (part ^ sign) - sign
        self._put(each.operands[0], part, active)

    def _lop3(self, each: Instruction, active: Array) -> None:
        x, y, z = (self._get(name, np.uint32) for name in each.operands[1:4])
        result = np.zeros(self.count, np.uint32)
        for i in range(8):
            if int(each.operands[4], 0) >> i & 1:
                result |= (x if i & 4 else ~x) & (y if i & 2 else ~y) & (z if i & 1 else ~z)
        self._put(each.operands[0], result, active)

    def _prmt(self, each: Instruction, active: Array) -> None:
        low, high, selector = (each.astype(np.uint64) for each in self._values(each, np.uint32))
        both, result = high << np.uint64(32) | low, np.zeros(self.count, np.uint64)
        for i in range(4):
            chosen = selector >> np.uint64(4 * i)
            byte = both >> np.uint64(8) * (chosen & np.uint64(7)) & np.uint64(255)
            sign = np.where(byte & np.uint64(128), np.uint64(255), np.uint64(0))
            result |= np.where(chosen & np.uint64(8), sign, byte) << np.uint64(8 * i)
        self._put(each.operands[0], result.astype(np.uint32), active)

    def _setp(self, each: Instruction, active: Array) -> None:
        x, y = (self._get(name, each.type) for name in each.operands[1:3])
        if "ftz" in each.opcode:
            x, y = flushed(x), flushed(y)
        name = each.opcode[1]
        if name in ("nan", "num"):
            result = (np.isnan(x) | np.isnan(y)) ^ (name == "num")
        elif name in COMPARISONS:
            result = COMPARISONS[name](x, y)
            if name == "ne" and x.dtype.kind == "f":  # true only of two numbers
                result &= ~(np.isnan(x) | np.isnan(y))
        else:  # such as ltu: true with NaN
            result = COMPARISONS[name.removesuffix("u")](x, y) | np.isnan(x) | np.isnan(y)
        if len(each.operands) > 3:
            name = each.operands[3]
            result = BITWISE[each.opcode[2]](result, self.registers[name.lstrip("!")] ^ name.startswith("!"))
        self._put(each.operands[0], result, active)

    def _selp(self, each: Instruction, active: Array) -> None:
        x, y = (self._get(name, each.type) for name in each.operands[1:3])
        self._put(each.operands[0], np.where(self.registers[each.operands[3]], x, y), active)

    def _mov(self, each: Instruction, active: Array) -> None:
        to, source = each.operands
        if isinstance(to, list):
            parts = self.registers[source]
            parts = parts.view(UNSIGNED[parts.itemsize // len(to)]).reshape(self.count, len(to))
            for i, name in enumerate(to):
                self._put(name, parts[:, i], active)
        elif isinstance(source, list):
            kind = UNSIGNED[np.dtype(each.type).itemsize // len(source)]
            # A half that is not used may be undefined: NaN, if it is used after all.
            unset = np.full(self.count, -1).astype(kind)
            undefined = [name.startswith("%") and name not in self.registers for name in source]
            halves = zip(source, undefined, strict=True)
            whole = np.stack([unset if missing else self._get(name, kind) for name, missing in halves], 1)
            self._put(to, whole.view(each.type)[:, 0], active)
        else:
            self._put(to, self._get(source, each.type), active)

    def _cvt(self, each: Instruction, active: Array) -> None:
        to, source = (TYPES[name] for name in each.opcode[-2:])
        value = self._get(each.operands[1], source)
        if "ftz" in each.opcode and source is np.float32:
            value = flushed(value)
        rounding = next((ROUNDINGS[part] for part in each.opcode if part in ROUNDINGS), None)
        value = value if rounding is None else rounding(value)
        if value.dtype.kind == "f" and np.dtype(to).kind != "f":  # NaN is 0, and others stay in the range
            least, most = np.iinfo(to).min, np.iinfo(to).max
            wide = np.nan_to_num(value.astype(np.longdouble), nan=0.0, posinf=float(most), neginf=float(least))
            value = np.clip(wide, least, most)
        self._put(each.operands[0], value.astype(to), active)


class Emulated:
    """A Triton function whose launches run its PTX here."""

    launches: ClassVar = Counter[str]()
    executed: ClassVar = Counter[str]()

    def __init__(self, kernel: Any, change: Callable[[str], str] = str) -> None:
        self.kernel, self.change = kernel, change
        self.programs: dict[int, tuple[Any, Program]] = {}

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def launch(*arguments: Any, **options: Any) -> None:
            made = self.kernel.warmup(*arguments, grid=grid, **options)
            if id(made) not in self.programs:
                self.programs[id(made)] = made, Program(self.change(made.asm["ptx"]))
            program = self.programs[id(made)][1]
            names = [each.name for each in self.kernel.params]
            given = dict(zip(names, arguments, strict=False)) | options
            bound = [given[name] for name, kind in made.src.signature.items() if kind != "constexpr"]
            values = [each.data_ptr() if hasattr(each, "data_ptr") else each for each in bound]
            values += [0] * (len(program.parameters) - len(values))  # scratch of Triton's, which is not used
            run = Launch(program, grid, values, made.metadata.shared, memory_of(bound))
            Emulated.launches[f"{made.name} of {len(program.code)} instructions"] += 1
            Emulated.executed.update(run.executed)

        return launch


def memory_of(tensors: Iterable[Any]) -> dict[int, Array]:
    """Return the bytes of the storages of tensors, among other values, by address."""
    found = {}
    for each in tensors:
        if hasattr(each, "data_ptr") and (size := each.untyped_storage().nbytes()):
            start = each.untyped_storage().data_ptr()
            found[start] = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(start))
    return found


def install(machine: str, cache: Path) -> None:
    """Let all kernels run here as they are compiled for a machine such as sm_90, without the assembler's step.

    Args:
        machine: its name.
        cache: directory for what Triton compiles.
    """
    os.environ["TRITON_INTERPRET"] = "0"
    os.environ["TRITON_CACHE_DIR"] = str(cache)
    import triton
    from triton.backends.nvidia.compiler import CUDABackend

    from kaldi_compat.torch.kernels import launch
    from tests.emulator import kernel_resources, probe_kernels

    CUDABackend.make_cubin = lambda self, source, metadata, options, capability: b""
    kernel_resources.choose(int(machine.removeprefix("sm_")))
    for module, name in (*kernel_resources.KERNELS, (probe_kernels, "draw"), (probe_kernels, "reflect")):
        setattr(module, name, Emulated(getattr(module, name)))
    assert launch.feature_kernel is not None and not triton.knobs.runtime.interpret


def summary() -> str:
    """Return what has been executed."""
    launches, variants = sum(Emulated.launches.values()), len(Emulated.launches)
    return f"{launches} launches of {variants} programs, {sum(Emulated.executed.values())} instructions, no race"
