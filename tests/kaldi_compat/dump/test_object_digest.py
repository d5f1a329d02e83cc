"""The digest of a Python object has all that decides its numbers, and nothing else; what cannot be compared is said."""

from __future__ import annotations

import cmath
import collections
import ctypes
import dataclasses
import enum
import functools
import itertools
import logging
import math
import os
import queue
import re
import subprocess
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import kaldi_compat.numpy
from kaldi_compat.dump import object_digest
from kaldi_compat.dump.object_digest import digest_object, find_changed_values
from kaldi_compat.dump.user_modules import find_imported_files
from kaldi_compat.torch import extractors as wing


class Holder:
    """An extractor with one attribute."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, audio: Any) -> Any:
        return audio


class Slotted:
    __slots__ = ("__hidden", "weights")

    def __init__(self, weights: Any, hidden: int) -> None:
        self.weights, self.__hidden = weights, hidden


@dataclasses.dataclass
class Settings:
    gain: float
    window: Any


class Kind(enum.Enum):
    A = 1
    B = 2


class Flag(enum.IntFlag):
    A = 1
    B = 2


class ArrayOfUser(np.ndarray):
    extra: Any


class TensorOfUser(torch.Tensor):
    pass


def _array_with(value: Any) -> ArrayOfUser:
    made = array(1).view(ArrayOfUser)
    made.extra = value
    return made


def _tensor_with(value: float, kind: Any = torch.Tensor) -> torch.Tensor:
    made: Any = torch.zeros(2).as_subclass(kind)
    made.extra = value
    return made


def _jagged(lengths: list[int]) -> torch.Tensor:
    return torch.nested.nested_tensor([torch.ones(length) for length in lengths], layout=torch.jagged)


def _per_channel(scale: float) -> torch.Tensor:
    scales, zeros = torch.tensor([scale, 0.2]), torch.tensor([0, 0])
    return torch.quantize_per_channel(torch.zeros(2, 2), scales, zeros, 0, torch.qint8)


class Words(list):  # type: ignore[type-arg]
    pass


def linear(fill: float) -> torch.nn.Module:
    module = torch.nn.Linear(2, 2)
    torch.nn.init.constant_(module.weight, fill)
    torch.nn.init.zeros_(module.bias)
    return module


def hooked(fill: float) -> torch.nn.Module:
    module = linear(1.0)
    module.register_forward_hook(functools.partial(lambda scale, *_: scale, fill))
    return module


def hooked_before(fill: float) -> torch.nn.Module:
    module = linear(1.0)
    module.register_forward_pre_hook(functools.partial(lambda scale, *_: scale, fill))
    return module


def with_list(fill: float) -> torch.nn.Module:
    module = linear(1.0)
    module.others = [linear(fill)]  # type: ignore[assignment]  torch does not register it
    return module


def closure(value: Any) -> Callable[..., Any]:
    return lambda audio: [value for _ in audio]


def with_default(value: Any) -> Callable[..., Any]:
    def function(audio: Any, weights: Any = value) -> Any:
        return weights

    return function


def with_keyword(value: Any) -> Callable[..., Any]:
    def function(audio: Any, *, weights: Any = value) -> Any:
        return weights

    return function


def with_attribute(value: Any) -> Callable[..., Any]:
    def function(audio: Any) -> Any:
        return audio

    function.weights = value  # type: ignore[attr-defined]
    return function


def in_dictionary_class(value: Any) -> type:
    return type("Made", (), {"weights": value, "__call__": lambda self, audio: audio})


def array(fill: float) -> np.ndarray:
    return np.full((2, 3), fill, np.float32)


def objects(fill: float) -> np.ndarray:
    made = np.empty(2, object)
    made[:] = ["a", array(fill)]
    return made


def ring(fill: float) -> list[Any]:
    made: list[Any] = [array(fill)]
    made.append(made)
    return made


class Number(float):
    weights: Any


def _number_with(value: Any) -> Number:
    made = Number(1)
    made.weights = value
    return made


def _with_globals(**names: Any) -> Callable[[], Any]:
    return types.FunctionType((lambda: globals()["W"]).__code__, {"__builtins__": __builtins__, **names})


def _module_with(value: Any) -> types.ModuleType:
    made = types.ModuleType("helper_of_the_user")
    made.value = value  # type: ignore[attr-defined]
    return made


VALUES: dict[str, Callable[[float], Any]] = {
    "number": lambda x: x,
    "large integer": lambda x: 10**5000 + int(x),
    "integer of more than 64 bits": lambda x: int(x) << 70,
    "sign of an integer": lambda x: int(2 * x - 3),
    "text": str,
    "bytes": lambda x: str(x).encode(),
    "array": array,
    "scalar of NumPy": np.float32,
    "masked array": lambda x: np.ma.MaskedArray(array(1), mask=[[x > 1, False, False]] * 2),
    "structured array": lambda x: np.array([(1, x)], dtype=[("a", "i4"), ("b", "f4")]),
    "array of objects": objects,
    "type of an array": lambda x: array(0).astype("f4" if x > 1 else "f8"),
    "shape of an array": lambda x: np.zeros((2, 3) if x > 1 else (3, 2)),
    "list of arrays": lambda x: [array(1), array(x)],
    "order of a list": lambda x: [array(x), array(3 - x)],
    "tuple of a dictionary": lambda x: ({"a": [array(x)]},),
    "key of a dictionary": lambda x: {str(x): array(1)},
    "values exchanged in a dictionary": lambda x: {"a": array(x), "b": array(3 - x)},
    "set": lambda x: {"a", "b", x},
    "last of many numbers": lambda x: [0] * 99 + [x],
    "order of many numbers": lambda x: [*range(99), x, 3 - x],
    "type of many numbers": lambda x: ([1] if x > 1 else [True]) * 99,
    "large integer among many": lambda x: [*range(99), int(x) << 70],
    "member of a large set": lambda x: {*range(99), x + 200},
    "large set of a tuple": lambda x: {*range(99), (x, "a")},
    "value of a large dictionary": lambda x: {**dict.fromkeys(range(99)), "a": x},
    "key of a large dictionary": lambda x: {**dict.fromkeys(range(99)), x + 200: 1},
    "values exchanged in a large dictionary": lambda x: {**dict.fromkeys(range(99)), "a": x, "b": 3 - x},
    "array in a large dictionary": lambda x: {**dict.fromkeys(range(99)), "a": array(x)},
    "type of a key": lambda x: {1: array(1)} if x > 1 else {"1": array(1)},
    "key that is a tuple": lambda x: {(x, "a"): array(1)},
    "value under a tuple": lambda x: {(1, "a"): array(x)},
    "read-only dictionary": lambda x: types.MappingProxyType({"a": array(x)}),
    "name of a field of an array": lambda x: np.zeros(2, [("a" if x > 1 else "b", np.float32)]),
    "frozen set of tuples": lambda x: frozenset([(1, x), (2, 3)]),
    "type of a container": lambda x: [1] if x > 1 else (1,),
    "deque": lambda x: collections.deque([x]),
    "default dictionary": lambda x: collections.defaultdict(list, {"a": [array(x)]}),
    "ordered dictionary": lambda x: collections.OrderedDict(a=array(x)),
    "subclass of list": lambda x: Words([array(x)]),
    "named tuple": lambda x: collections.namedtuple("Pair", "a b")(1, array(x)),
    "dataclass": lambda x: Settings(x, array(1)),
    "array in a dataclass": lambda x: Settings(1, array(x)),
    "slots": lambda x: Slotted(array(x), 1),
    "private slot": lambda x: Slotted(array(1), int(x)),
    "slot of a base class": lambda x: type("Made", (Slotted,), {"__slots__": ()})(array(x), 1),
    "namespace": lambda x: types.SimpleNamespace(a=array(x)),
    "attribute of an attribute": lambda x: Holder(Holder(Holder(array(x)))),
    "enumeration": lambda x: Kind(int(x)),
    "path": lambda x: Path(str(x)),
    "regular expression": lambda x: re.compile(str(x)),
    "date": lambda x: __import__("datetime").date(2000, 1, int(x)),
    "random generator": lambda x: np.random.default_rng(int(x)),
    "old random generator": lambda x: np.random.RandomState(int(x)),
    "counter": lambda x: itertools.count(int(x)),
    "partial": lambda x: functools.partial(np.add, array(x)),
    "keyword of a partial": lambda x: functools.partial(np.add, out=array(x)),
    "method": lambda x: Holder(array(x)).__call__,
    "method of a C object": lambda x: [array(x)].append,
    "closure": lambda x: closure(array(x)),
    "default of a function": lambda x: with_default(array(x)),
    "default of a keyword of a function": lambda x: with_keyword(array(x)),
    "attribute of a function": lambda x: with_attribute(array(x)),
    "attribute of a class": lambda x: in_dictionary_class(array(x))(),
    "class": lambda x: in_dictionary_class(array(x)),
    "class attribute with a name of Python": lambda x: type("Made", (), {"__weights__": array(x)})(),
    "object as a method": lambda x: type("Made", (), {"__call__": Holder(array(x))})(),
    "partial method": lambda x: type("Made", (), {"__call__": functools.partialmethod(print, array(x))})(),
    "attribute of a metaclass": lambda x: type("Meta", (type,), {"weights": array(x)})("Made", (), {})(),
    "attribute of a number": lambda x: _number_with(array(x)),
    "module of the user's": lambda x: _module_with(array(x)),
    "module in a module of the user's": lambda x: _module_with(_module_with(array(x))),
    "cached function": lambda x: functools.lru_cache(closure(array(x))),
    "global by its name": lambda x: _with_globals(W=array(x)),
    "cycle": ring,
    "tensor": lambda x: torch.full((2,), x),
    "tensor in half precision": lambda x: torch.full((2,), x, dtype=torch.bfloat16),
    "complex tensor": lambda x: torch.full((2,), x * 1j),
    "sparse tensor": lambda x: torch.eye(2).mul(x).to_sparse(),
    "type of a tensor": lambda x: torch.zeros(2, dtype=torch.float32 if x > 1 else torch.int32),
    "type of NumPy": lambda x: np.dtype("f4" if x > 1 else "f8"),
    "byte order of NumPy": lambda x: np.dtype("<f4" if x > 1 else ">f4"),
    "type of torch": lambda x: torch.float32 if x > 1 else torch.float64,
    "module": linear,
    "modules in a list": lambda x: [linear(1.0), linear(x)],
    "order of modules in a list": lambda x: [linear(x), linear(3 - x)],
    "modules in a dictionary": lambda x: {"a": {"b": linear(x)}},
    "list in a module": with_list,
    "hook of a module": hooked,
    "hook before a module": hooked_before,
    "attribute of a module": lambda x: torch.nn.Dropout(x / 10),
    "buffer that is not saved": lambda x: _with_buffer(x),
    "name of a weight": lambda x: torch.nn.ModuleDict({f"a{int(x)}": linear(1.0)}),
    "shape of a weight": lambda x: torch.nn.Parameter(torch.zeros(2, 3) if x > 1 else torch.zeros(3, 2)),
    "scripted module": lambda x: torch.jit.script(linear(x)),
    "attribute of a scripted module": lambda x: torch.jit.script(torch.nn.Softplus(x)),
    "value of an enumeration": lambda x: enum.Enum("Changing", {"A": x}).A,
    "value of a number in an enumeration": lambda x: enum.IntEnum("Changing", {"A": int(x)}).A,
    "flag": lambda x: Flag(int(x)),
    "attribute of an array": lambda x: _array_with(array(x)),
    "attribute of a tensor": lambda x: _tensor_with(x),
    "attribute of a class of tensors": lambda x: _tensor_with(x, TensorOfUser),
    "class of a tensor": lambda x: _tensor_with(1, TensorOfUser if x > 1 else torch.Tensor),
    "nested tensor": lambda x: torch.nested.nested_tensor([torch.full((2,), x), torch.full((3,), x)]),
    "lengths of a jagged tensor": lambda x: _jagged([int(x), 3 - int(x)]),
    "quantized tensor": lambda x: torch.quantize_per_tensor(torch.full((2,), x), 0.1, 0, torch.qint8),
    "scale of a quantized tensor": lambda x: torch.quantize_per_tensor(torch.zeros(2), 0.1 * x, 0, torch.qint8),
    "scale of a quantized channel": lambda x: _per_channel(0.1 * x),
    "storage": lambda x: torch.full((2,), x).untyped_storage(),
    "fill value of a masked array": lambda x: np.ma.MaskedArray(array(1), mask=True, fill_value=x),
    "order of fields of NumPy": lambda x: np.dtype([(name, "f4") for name in ("ab" if x > 1 else "ba")]),
    "object of a cycle": lambda x: _pair_of_holders(x > 1),
    "state of a C object": lambda x: __import__("decimal").Decimal(x),
    "states of C objects": lambda x: [__import__("decimal").Decimal(n) for n in (1, x, 3, x)],
    "cached property": lambda x: type("Made", (), {"weights": functools.cached_property(closure(array(x)))})(),
    "property": lambda x: type("Made", (), {"weights": property(closure(array(x)))})(),
    "static method": lambda x: type("Made", (), {"weights": staticmethod(closure(array(x)))})(),
    "class method": lambda x: type("Made", (), {"weights": classmethod(closure(array(x)))})(),
    "attribute of a base class": lambda x: type("Made", (type("Base", (), {"weights": array(x)}),), {})(),
    "content of a list with attributes": lambda x: _words_with([array(x)], 1),
    "attribute of a list": lambda x: _words_with([1], array(x)),
    "repetition": lambda x: itertools.repeat(x),
    "conjugated tensor": lambda x: torch.full((2,), x + 1j).conj(),
    "number of dimensions": lambda x: np.zeros((1, 2) if x > 1 else 2),
    "length of a deque": lambda x: collections.deque([1], int(x)),
    "length of a subclass of deque": lambda x: type("Made", (collections.deque,), {})([1], int(x)),
    "method of a class of C": lambda x: np.ndarray.mean if x > 1 else np.ndarray.max,
    "method of a class of torch": lambda x: torch.Tensor.mean if x > 1 else torch.Tensor.amax,
    "operator of a class of C": lambda x: np.ndarray.__add__ if x > 1 else np.ndarray.__mul__,
    "class of a method": lambda x: str.upper if x > 1 else bytes.upper,
    "class method of a class of C": lambda x: vars(dict if x > 1 else collections.OrderedDict)["fromkeys"],
    "slot of a class": lambda x: vars(Slotted)["weights" if x > 1 else "_Slotted__hidden"],
    "module of a function of C": lambda x: math.sqrt if x > 1 else cmath.sqrt,
    "function with the name of a library's": lambda x: wrapped(x),
    "weak reference": lambda x: weakref.ref(KEPT[int(x)]),
    "weak reference to a method": lambda x: weakref.WeakMethod(KEPT[int(x)].__call__),
    "matrix of NumPy": lambda x: np.matrix(array(1)) if x > 1 else array(1),
    "type of a subarray": lambda x: np.dtype(("f4" if x > 1 else "i4", (3,))),
    "order of an ordered dictionary": lambda x: collections.OrderedDict(_turn([("a", 1), ("b", 2)], x)),
    "order of a subclass of an ordered dictionary": lambda x: _OrderedOfUser(_turn([("a", 1), ("b", 2)], x)),
    "order of functions in a dictionary": lambda x: dict(_turn([("a", np.log), ("b", np.exp)], x)),
    "order of modules in a dictionary": lambda x: dict(_turn([("a", torch.nn.ReLU()), ("b", torch.nn.Tanh())], x)),
    "order of modules in a module": lambda x: torch.nn.Sequential(
        collections.OrderedDict(_turn([("a", torch.nn.ReLU()), ("b", torch.nn.Tanh())], x))
    ),
    "key with brackets": lambda x: {1 if x > 1 else "[1]": array(1)},
    "setter of a property": lambda x: type("Made", (), {"weights": property(len, closure(array(x)))})(),
    "global by the module": lambda x: _with_sys_modules(W=array(x)),
}
KEPT = {number: Holder(array(number)) for number in (1, 2)}


class _OrderedOfUser(collections.OrderedDict):  # type: ignore[type-arg]
    pass


def _turn(items: list[Any], x: float) -> list[Any]:
    return items[::-1] if x > 1 else items


def wrapped(scale: float) -> Callable[..., Any]:
    return functools.wraps(np.mean)(lambda audio: np.mean(audio) * scale)


def _with_sys_modules(**names: Any) -> Callable[[], Any]:
    return types.FunctionType((lambda: sys.modules["m"].W).__code__, {"sys": sys, **names})  # type: ignore[attr-defined]


def _words_with(content: list[Any], value: Any) -> Words:
    made = Words(content)
    made.extra = value  # type: ignore[attr-defined]
    return made


def _pair_of_holders(is_mutual: bool) -> Holder:
    """Return an object that refers to another one, which refers to the first one or to itself."""
    first, second = Holder(None), Holder(None)
    first.value, second.value = second, first if is_mutual else second
    return first


def _with_buffer(fill: float) -> torch.nn.Module:
    module = torch.nn.Identity()
    module.register_buffer("hidden", torch.tensor(fill), persistent=False)
    return module


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.filterwarnings("ignore")
def test_other_value_gives_another_digest(kind: str) -> None:
    first, again, other = (digest_object(Holder(VALUES[kind](value)), wing) for value in (1.0, 1.0, 2.0))
    assert first.parts == again.parts and not first.opaque
    assert {name for name in first.parts if first.parts[name] != other.parts[name]} == {"value"}


def _filled(holder: Any) -> Any:
    holder.put(1)
    return holder


def _local(value: Any) -> threading.local:
    made = threading.local()
    made.value = value
    return made


def _cached(value: Any) -> Callable[[], Any]:
    function = functools.lru_cache(lambda: value)
    function()
    return function


UNORDERED: dict[str, Callable[[list[Any]], Any]] = {
    "dictionary": lambda items: {str(item): array(1) for item in items},
    "dictionary of tuples": lambda items: {(item, 1): array(1) for item in items},
    "large dictionary": lambda items: {item + 1000 * more: item for more in range(30) for item in items},
    "attributes": lambda items: types.SimpleNamespace(**{f"a{item}": item for item in items}),
}


@pytest.mark.parametrize("kind", UNORDERED)
def test_order_of_keys_is_no_part_of_the_digest(kind: str) -> None:
    first, other = (digest_object(Holder(UNORDERED[kind](items)), wing) for items in ([1, 2, 3, 8], [8, 3, 1, 2]))
    assert first.parts == other.parts and not first.opaque


@pytest.mark.parametrize("function", [lambda options: vars(options), lambda: "torch" in sys.modules])
def test_globals_that_a_function_does_not_use_are_no_part_of_its_digest(function: types.FunctionType) -> None:
    """A global such as the start time differs between the processes of a dump and of its continuation."""
    first, other = (types.FunctionType(function.__code__, {"sys": sys, "START": start}) for start in (1.0, 2.0))
    assert digest_object(Holder(first), wing).parts == digest_object(Holder(other), wing).parts


def test_file_of_a_function_with_the_name_of_a_librarys_is_recorded() -> None:
    assert digest_object(wrapped(2.0), wing).files == {__name__: Path(__file__)}


def test_documentation_and_annotations_of_a_class_are_no_part_of_the_digest() -> None:
    first, other = (type("Made", (), {"__doc__": text, "__annotations__": {text: int}, "gain": 1}) for text in "ab")
    assert digest_object(Holder(first()), wing).parts == digest_object(Holder(other()), wing).parts


@pytest.mark.parametrize("many", [1, 99])
def test_device_inside_a_container_is_no_part_of_the_digest(many: int) -> None:
    for make in (
        lambda name: [name] * many,
        lambda name: {name: [1] * many},
        lambda name: {"a": {name} | {*range(many)}},
    ):
        first, other = (digest_object(Holder(make(name)), wing).parts for name in ("cpu", "cuda:1"))
        assert first == other
    assert digest_object(Holder(["a cpu"] * many), wing).parts != digest_object(Holder(["a cuda"] * many), wing).parts


class _EventWithWeights(threading.Event):
    def __init__(self, weights: Any) -> None:
        super().__init__()
        self.weights = weights


OPAQUE: dict[str, Callable[[], Any]] = {
    "open file": lambda: open(__file__),  # noqa: SIM115  the object holds it
    "file that is read and written": lambda: open(__file__, "r+"),  # noqa: SIM115
    "generator": lambda: (i for i in range(3)),
    "function as a ufunc": lambda: np.frompyfunc(closure(array(1)), 1, 1),
    "iterator": lambda: iter([1]),
    "library": lambda: ctypes.CDLL(None),
    "pointer": lambda: ctypes.pointer(ctypes.c_int(3)),
    "process": lambda: subprocess.Popen(["true"]),
    "weights that do not exist yet": lambda: torch.nn.LazyLinear(3),
    "tensor without values": lambda: torch.zeros(2, device="meta"),
    "thread": lambda: threading.Thread(target=print),
    "queue that holds an object": lambda: _filled(queue.Queue()),
    "simple queue that holds an object": lambda: _filled(queue.SimpleQueue()),
    "content of a thread": lambda: _local(array(1)),
    "weak keys": lambda: weakref.WeakKeyDictionary({test_state_outside_of_python_is_reported: array(1)}),
    "weak values": lambda: weakref.WeakValueDictionary({1: test_state_outside_of_python_is_reported}),
    "event of the user's": lambda: _EventWithWeights(array(1)),
    "queue of the user's": lambda: type("Made", (queue.Queue,), {"weights": array(1)})(),
    "weak set": lambda: weakref.WeakSet([test_state_outside_of_python_is_reported]),
    "cache that is not empty": lambda: _cached(array(1)),
    "deep list": lambda: functools.reduce(lambda inner, _: [inner, array(1)], range(2000), []),
}


@pytest.mark.parametrize("kind", OPAQUE)
@pytest.mark.filterwarnings("ignore")
def test_state_outside_of_python_is_reported(kind: str) -> None:
    opaque = digest_object(Holder([{"a": OPAQUE[kind]()}]), wing).opaque
    assert opaque and all(path.startswith("value.0.a") for path in opaque)


def test_digest_of_parts_has_their_bounds() -> None:
    digests = [object_digest._hash(*parts) for parts in (("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""))]
    assert len({*digests}) == 4 and object_digest._hash("ab", b"c") == digests[0]


def test_paths_into_a_dictionary_name_only_plain_keys() -> None:
    """The text of another key may be an address, which is different in each process."""
    mixed = {"name": iter([1]), Holder(1): iter([2])}
    assert digest_object(Holder(mixed), wing).opaque.keys() == {"value.name.1", "value..1"}


def test_standard_streams_are_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard input can be read, so that it is not recognized as a log."""
    with open(os.devnull) as stream, open(os.devnull) as other:
        monkeypatch.setattr(object_digest, "STREAMS", (sys.stdout, stream))
        assert not digest_object(Holder([stream]), wing).opaque
        assert digest_object(Holder([other]), wing).opaque.keys() == {"value.0"}


def test_session_of_onnxruntime_is_reported() -> None:
    runtime = pytest.importorskip("onnxruntime")
    assert digest_object(Holder(runtime.SessionOptions()), wing).opaque.keys() == {"value"}


IRRELEVANT: dict[str, Callable[[], Any]] = {
    "logger": lambda: logging.getLogger("x"),
    "lock": threading.Lock,
    "content of no thread": threading.local,
    "empty queue": queue.Queue,
    "empty simple queue": queue.SimpleQueue,
    "empty weak set": weakref.WeakSet,
    "empty weak dictionary": weakref.WeakKeyDictionary,
    "cache that is empty": lambda: functools.lru_cache(len),
    "random generator of torch": lambda: torch.Generator().manual_seed(3),
    "reentrant lock": threading.RLock,
    "handler of the user's": type("Made", (logging.NullHandler,), {"__module__": __name__}),
    "dead weak reference": lambda: weakref.ref(Holder(1)),
    "function of a library with a decorator": lambda: [np.mean, torch.no_grad, functools.wraps(len)(np.mean)],
    "standard error": lambda: sys.stderr,
    "file that is only written": lambda: open(os.devnull, "a"),  # noqa: SIM115
    "library module": lambda: np,
    "library function": lambda: np.add,
    "library class": lambda: np.ndarray,
    "device": lambda: torch.device("cpu"),
    "front end of NumPy": lambda: kaldi_compat.numpy.Fbank(),
    "front end of torch": lambda: kaldi_compat.Frontend("wespeaker"),
    "generic type": lambda: list[int],
    "warnings": lambda: __import__("warnings").catch_warnings(),
}


@pytest.mark.parametrize("kind", IRRELEVANT)
def test_ordinary_attributes_are_no_false_alarm(kind: str) -> None:
    first, again = (digest_object(Holder(IRRELEVANT[kind]()), wing) for _ in range(2))
    assert not first.opaque and first.parts == again.parts


@pytest.mark.parametrize("devices", [("cpu", "cuda:1"), (torch.device("cpu"), torch.device("cuda", 0))])
def test_device_is_no_part_of_the_digest(devices: tuple[Any, Any]) -> None:
    first, other = (digest_object(Holder([device, linear(1.0)]), wing).parts for device in devices)
    assert first == other


def test_training_mode_and_gradients_are_no_part_of_the_digest() -> None:
    module = linear(1.0)
    first = digest_object(module, wing).parts
    assert digest_object(module.eval().requires_grad_(False), wing).parts == first


def test_every_module_in_reach_is_reported() -> None:
    modules = [linear(1.0) for _ in range(5)]
    held = Holder([modules[0], {"a": (modules[1],)}, Holder(modules[2]), closure(modules[3]), with_list(2.0)])
    found = digest_object(held, wing).modules
    assert all(any(each is module for each in found) for module in modules[:4]) and len(found) == 6


PROGRAM = """
import numpy as np, sys
import helper
from kaldi_compat.dump.object_digest import digest_object

GAIN, UNUSED = np.ones(3), object()


class Extractor:
    names = {"a", "b", "c", "d", "e"}

    def __init__(self):
        self.table = {name: np.ones(2) for name in self.names}
        self.pairs = {(name, len(name)) for name in self.names}
        self.helper = helper.Helper()

    def __call__(self, audio):
        if audio in {"f", "g", "h", "i", "j", ("k", 1)}:
            return []
        return [GAIN * helper.scale(each) for each in audio]


found = digest_object(Extractor(), None)
assert not found.opaque, found.opaque
print(sorted(found.parts.items()), sorted(found.files))
"""
HELPER = """
import numpy as np

W = np.ones(2)


class Helper:
    pass


def scale(x):
    return W * x
"""


def printed(root: Path, seed: int, program: str = PROGRAM, helper: str = HELPER) -> str:
    (root / "helper.py").write_text(helper)
    (root / "program.py").write_text(program)
    path = str(Path(kaldi_compat.numpy.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "program.py"], cwd=root, env={"PYTHONHASHSEED": str(seed), "PYTHONPATH": path},
        capture_output=True, text=True, check=True, timeout=100,
    ).stdout  # fmt: skip


def test_processes_agree_and_globals_and_code_count(tmp_path: Path) -> None:
    first = printed(tmp_path, 1)
    assert first == printed(tmp_path, 2) and first.endswith("['helper']\n")
    assert printed(tmp_path, 1, PROGRAM.replace("np.ones(3)", "np.zeros(3)")) != first
    assert printed(tmp_path, 1, PROGRAM.replace("[GAIN * h", "[GAIN + h")) != first
    assert printed(tmp_path, 1, helper=HELPER.replace("W = np.ones(2)", "W = np.zeros(2)")) != first
    assert printed(tmp_path, 1, PROGRAM + "\n# a comment, and another unused = 3\n") == first


class Lazy:
    """Counts its calls, and loads its weights in the first one."""

    def __init__(self) -> None:
        self.calls, self.weights, self.other = 0, None, array(1)

    def __call__(self, audio: Any) -> Any:
        self.calls += 1
        self.weights: Any = array(2)
        return audio


def test_values_that_calls_change_are_named_and_excluded() -> None:
    made = Lazy()
    before = digest_object(made, wing)
    made([])
    changed = find_changed_values(before, digest_object(made, wing))
    assert changed == {"calls": "", "weights": ""}
    excluded = frozenset(changed)
    made([])
    fresh = Lazy()
    assert digest_object(made, wing, excluded).parts == digest_object(fresh, wing, excluded).parts
    fresh.other = array(3)
    assert digest_object(made, wing, excluded).parts != digest_object(fresh, wing, excluded).parts


class Changing:
    """Has a value that its calls change by a function."""

    def __init__(self, value: Any, change: Callable[[Any], Any]) -> None:
        self.value, self.change = value, change

    def __call__(self, audio: Any) -> Any:
        found = self.change(self.value)
        self.value = found if found is not None else self.value
        return audio


def changes(value: Any, change: Callable[[Any], Any]) -> dict[str, str]:
    made = Changing(value, change)
    before = digest_object(made, wing)
    made([])
    return find_changed_values(before, digest_object(made, wing))


def count(owner: Any) -> None:
    owner.value += 1


COUNTS: dict[str, tuple[Callable[[float], Any], Callable[[Any], Any], str]] = {
    "beside an array": (lambda x: {"w": array(x), "n": 0}, lambda d: d.update(n=1), "value.n"),
    "beside a list": (lambda x: {"n": 0, "w": [x]}, lambda d: d.update(n=1), "value.n"),
    "in a list": (lambda x: [0, array(x)], lambda each: each.__setitem__(0, 1), "value.0"),
    "of one of two objects": (lambda x: [Holder(0), Holder(x)], lambda two: count(two[0]), "value.0.value"),
    "new beside an array": (lambda x: {"w": array(x)}, lambda d: d.update(n=1), "value.n"),
    "time": (lambda x: {"w": array(x)}, lambda d: d.update(n=time.time()), "value.n"),
    "counter": (lambda x: [x, collections.Counter()], lambda two: two[1].update("a"), "value.1.[]"),
    "generator": (lambda x: [x, np.random.default_rng(1)], lambda two: two[1].random() and None, "value.1"),
    "old generator": (lambda x: [x, np.random.RandomState(1)], lambda two: two[1].rand() and None, "value.1"),
    "generator of torch": (
        lambda x: [x, torch.Generator().manual_seed(3)],
        lambda two: two[1].manual_seed(4) and None,
        "value.1",
    ),
}


@pytest.mark.parametrize("kind", COUNTS)
def test_count_is_excluded_alone(kind: str) -> None:
    make, change, path = COUNTS[kind]
    assert changes(make(1), change) == {path: ""}
    excluded = frozenset([path])
    called = Changing(make(1), change)
    called([])
    fresh, other = (digest_object(Changing(make(fill), change), wing, excluded).parts for fill in (1, 2))
    assert digest_object(called, wing, excluded).parts == fresh != other


LATE: dict[str, tuple[Any, Callable[[Any], Any], str]] = {
    "array": (None, lambda _: array(1), "value"),
    "list of floats": (None, lambda _: [0.5], "value"),
    "float": (None, lambda _: 0.5, "value"),
    "dictionary": (None, lambda _: {"a": 1}, "value"),
    "content of a dictionary": ({}, lambda held: held.update(a=[1]), "value"),
    "entry beside a count": ({"n": 1}, lambda held: held.update(w=[1]), "value.w"),
    "module": (None, lambda _: linear(1), "value"),
}


@pytest.mark.parametrize("kind", LATE)
def test_what_appears_in_a_call_is_named_alone(kind: str) -> None:
    value, change, path = LATE[kind]
    assert changes(value, change) == {path: ""}


def test_module_that_a_call_imports_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def call(audio: Any) -> Any:
        import helper_of_the_user  # type: ignore[import-not-found]

        return helper_of_the_user

    before = digest_object(call, wing)
    monkeypatch.setitem(sys.modules, "helper_of_the_user", _module_with(array(1)))
    assert find_changed_values(before, digest_object(call, wing)) == {"import helper_of_the_user": ""}


@pytest.mark.parametrize("other", ['("a", "bc")', '("abc",)', '("ab", "d")', '("c", "ab")'])
def test_constants_of_code_are_told_apart(other: str) -> None:
    def function(constants: str) -> Any:
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(f"def f(audio):\n    return audio in {constants}", names)
        return digest_object(Holder(names["f"]), wing).parts

    assert function('("ab", "c")') == function('("ab", "c")') != function(other)


@pytest.mark.parametrize("other", ["b'ab', 1", "'ab', True", "'ab', '1'", "'ab', 1.0", "(), 1"])
def test_types_of_constants_are_told_apart(other: str) -> None:
    digests = [digest_object(Holder(eval(f"lambda: [{text}]")), wing).parts for text in ("'ab', 1", other)]
    assert digests[0] != digests[1]


def louder(audio: Any) -> Any:
    return audio * 2


def softer(audio: Any) -> Any:
    return audio / 2


class Louder:
    def scale(self, audio: Any) -> Any:
        return audio * 2

    def halve(self, audio: Any) -> Any:
        return audio / 2


class Softer:
    def scale(self, audio: Any) -> Any:
        return audio / 2

    def halve(self, audio: Any) -> Any:
        return audio / 2


LOUDER = Louder()
CHOICES: dict[str, tuple[Any, Any]] = {
    "function": (louder, softer),
    "lambda": (lambda audio: audio * 2, lambda audio: audio / 2),
    "method": (LOUDER.scale, LOUDER.halve),
    "class": (Louder, Softer),
    "partial": (functools.partial(louder), functools.partial(softer)),
    "name of a keyword": (lambda *, a=1: a, lambda a=1: a),
    "function of evaluated text": tuple(eval(f"lambda audio: audio * {number}") for number in (2, 3)),
    "method of a new class": tuple(type("Made", (), {"scale": scale})() for scale in (louder, softer)),
}


@pytest.mark.parametrize("kind", CHOICES)
def test_functions_of_one_file_are_told_apart(kind: str) -> None:
    first, other = (digest_object(Holder(value), wing).parts for value in CHOICES[kind])
    assert first["value"] != other["value"]


class Restoring:
    """Deletes an attribute in a call and sets it again. Its object is in a cycle with that of another attribute."""

    def __init__(self) -> None:
        self.scale = Holder(None)
        self.parent = Slotted(self.scale, 1)
        self.scale.value = self.parent

    def __call__(self, audio: Any) -> Any:
        scale = self.scale
        del self.scale
        self.scale = scale
        return audio


class RestoringModule(Restoring, torch.nn.Module):
    def __init__(self) -> None:
        torch.nn.Module.__init__(self)
        Restoring.__init__(self)


@pytest.mark.parametrize("kind", ["object", "module"])
def test_order_in_which_attributes_were_set_is_no_part(kind: str) -> None:
    extractor: Any = Restoring() if kind == "object" else RestoringModule()
    before = digest_object(extractor, wing)
    extractor([])
    after = digest_object(extractor, wing)
    assert before.parts == after.parts and not find_changed_values(before, after)


@pytest.mark.parametrize("other", ["audio.max()", "audio.min", "self.min()", "audio.min() + 0", "other.min()"])
def test_names_in_code_are_told_apart(other: str) -> None:
    def function(body: str) -> Any:
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(f"def f(audio, other=None, self=None):\n    return {body}", names)
        return digest_object(Holder(names["f"]), wing).parts

    assert function("audio.min()") == function("audio.min()") != function(other)


def test_files_of_imported_modules_are_those_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = _module_with(1)
    made.__file__ = str(tmp_path / "helper_of_the_user.py")
    before = dict.fromkeys(set(sys.modules) - {"numpy", "json", "kaldi_compat.numpy", "torch"})
    monkeypatch.setitem(sys.modules, "helper_of_the_user", made)
    assert find_imported_files(before) == {"helper_of_the_user": tmp_path / "helper_of_the_user.py"}
    assert find_imported_files(sys.modules) == {}


def test_module_that_an_inner_function_imports_is_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    def outer(audio: Any) -> Any:
        def inner() -> Any:
            import helper_of_the_user

            return helper_of_the_user

        return inner()

    digests = []
    for fill in (1, 1, 2):
        monkeypatch.setitem(sys.modules, "helper_of_the_user", _module_with(array(fill)))
        digests.append(digest_object(Holder(outer), wing).parts)
    assert digests[0] == digests[1] != digests[2]


def test_array_that_calls_change_cannot_be_compared() -> None:
    assert changes({"w": array(1)}, lambda held: held["w"].fill(3)) == {"value.w": "changed by its calls"}


def test_modules_of_torch_in_new_places_are_reported() -> None:
    held = type("Made", (), {"__net__": linear(1), "other": _module_with(_module_with(linear(2)))})()
    assert len(digest_object(Holder(held), wing).modules) == 2


def test_cache_of_a_library_is_no_late_weight() -> None:
    made = Holder(kaldi_compat.numpy.Fbank())
    before = digest_object(made, wing)
    made.value(np.zeros(4000, np.float32))
    assert not any(find_changed_values(before, digest_object(made, wing)).values())


@pytest.mark.parametrize("kind", [list, dict, tuple])
def test_array_among_many_numbers_is_compared(kind: Any) -> None:
    def hold(middle: float) -> Holder:
        weights = np.zeros(5000, np.float32)  # repr omits the values in the middle.
        weights[2500] = middle
        values = [*range(100), weights]
        return Holder(dict(enumerate(values)) if kind is dict else kind(values))

    first, equal, other = (digest_object(hold(middle), wing).parts for middle in (0.0, 0.0, 1.0))
    assert first == equal != other


def test_object_of_too_many_objects_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_digest, "MAX_OBJECTS", 50)
    holder = Holder([[i, [i]] for i in range(100)])
    assert "too large" in str(digest_object(holder, None).opaque)
    monkeypatch.setattr(object_digest, "MAX_OBJECTS", 5000)
    assert not digest_object(holder, None).opaque


def test_names_that_python_adds_to_a_module_are_not_among_its_globals() -> None:
    """A function that calls ``globals()`` uses all variables of its module, but ``__file__`` decides nothing."""
    one, other = _with_globals(W=1), _with_globals(W=1)
    one.__globals__.update({"__file__": "/a/x.py", "__cached__": "/a/x.pyc"})  # type: ignore[attr-defined]
    other.__globals__.update({"__file__": "/b/x.py", "__cached__": "/b/x.pyc"})  # type: ignore[attr-defined]
    assert digest_object(one, None).parts == digest_object(other, None).parts
    other.__globals__["W"] = 2  # type: ignore[attr-defined]
    assert digest_object(one, None).parts != digest_object(other, None).parts


def test_order_of_a_set_in_the_code_of_a_function_is_no_part_of_the_digest() -> None:
    """Python orders a set by hashes, which differ between processes for texts."""
    first, other, third = (
        digest_object(Holder(eval(f"lambda x: x in {{{members}}}", {"__name__": __name__})), wing).parts
        for members in ("0, 8", "8, 0", "0, 9")
    )
    assert first == other != third


def _catching(audio: Any) -> Any:
    try:
        return audio[0]
    except IndexError:
        return None


@pytest.mark.parametrize("changes", [{"co_argcount": 0}, {"co_exceptiontable": b""}])
def test_parts_of_code_beside_the_instructions_are_told_apart(changes: dict[str, Any]) -> None:
    code = _catching.__code__
    if not hasattr(code, next(iter(changes))):
        pytest.skip("Python 3.10 has the blocks of exceptions in the instructions")
    assert object_digest._digest_code(code.replace(**changes)) != object_digest._digest_code(code)
