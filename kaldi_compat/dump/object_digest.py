"""Digest what decides the numbers of a Python object: attributes, arrays, weights, code, and the user's files.

Two processes that make the same object get the same digest. Addresses, devices, the order of sets and Python's hash
seed do not enter. An object without comparable state, such as a session of a C library, is reported.
"""

from __future__ import annotations

import contextlib
import copyreg
import ctypes
import dis
import enum
import functools
import hashlib
import itertools
import logging
import queue
import re
import site
import sys
import sysconfig
import threading
import time
import types
import weakref
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Container, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np

PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented))
# State of these objects does not decide numbers.
IRRELEVANT = (
    logging.Logger, logging.Handler, logging.LoggerAdapter, Executor, queue.Queue, queue.SimpleQueue, threading.Thread,
    threading.Event, threading.Condition, threading.Semaphore, threading.local, type(threading.Lock()),
    type(threading.RLock()), weakref.ref, weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet,
    types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType, types.MethodDescriptorType,
)  # fmt: skip
# Python classes whose state is in another process or library.
OUTSIDE = {"subprocess.Popen", "socket.socket", "ctypes.CDLL", "multiprocessing.process.BaseProcess"}
STREAMS = (sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__)
CONTAINERS = (list, tuple, deque, set, frozenset, dict, types.MappingProxyType)
RANDOM = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, itertools.count)
# Attributes of classes that Python makes.
OF_ANY_CLASS = frozenset(
    [
        "__module__",
        "__qualname__",
        "__name__",
        "__doc__",
        "__dict__",
        "__weakref__",
        "__annotations__",
        "__annotate__",
        "__annotate_func__",
        "__annotations_cache__",
        "__slots__",
        "__parameters__",
        "__orig_bases__",
        "__abstractmethods__",
        "__match_args__",
        "__hash__",
        "__dataclass_fields__",
        "__dataclass_params__",
        "__firstlineno__",
        "__static_attributes__",
        "__type_params__",
    ]
)
ALL_GLOBALS = {"globals", "eval", "exec"}  # Code with these may refer to every global.
MAX_SINGLE = 64  # Plain values of a container that are compared one by one.
MAX_DEPTH = 150  # Levels of nested objects. A level takes three of Python's 1000 nested calls.
MAX_OBJECTS = 2_000_000  # About ten seconds.
_DEVICE = re.compile(r"(cpu|cuda|mps|xpu)(:\d+)?")
_PY_TPFLAGS_HEAPTYPE = 1 << 9  # object.h
_POINTER = ctypes.sizeof(ctypes.c_void_p)
_OURS = ("kaldi_compat", "io_ark", "kaldi_standins")


class Node(NamedTuple):
    """Digest of a value, and of the values that it refers to.

    Attributes:
        digest: digest of the value and everything below it.
        kind: says what a change of it means: one of the constants below.
        label: kind and class of an object or container.
        children: the values that it refers to by name; empty if these have no names.
        is_users: it is an object of the user's code, not of a library; None for other values.
        has_arrays: it holds an array, a tensor or a module of torch.
        has_modules: it holds a module of torch.
    """

    digest: bytes
    kind: str
    label: str = ""
    children: Mapping[str, Node] = {}
    is_users: bool | None = None
    has_arrays: bool = False
    has_modules: bool = False


# A count, name, time or random state; a number that may be a weight; None, or nothing in a container; code and modules.
COUNT, NUMBER, EMPTY, IGNORED, CODE, OTHER = "count", "number", "empty", "ignored", "code", "other"
NOTHING = Node(b"", EMPTY)


@dataclass
class ObjectDigest:
    """Digest of an object.

    Attributes:
        parts: digest of each attribute of the object.
        opaque: type of each object that has no comparable state, by its path.
        root: the object with everything in its reach.
        modules: modules of torch.
        files: source files of the user's modules that the object uses, by module name.
    """

    parts: dict[str, str] = field(default_factory=dict)
    opaque: dict[str, str] = field(default_factory=dict)
    root: Node = NOTHING
    modules: list[Any] = field(default_factory=list)
    files: dict[str, Path] = field(default_factory=dict)


class _Child(NamedTuple):
    """A value that another one refers to."""

    name: str
    value: Any


def digest_object(value: Any, torch: Any, excluded: frozenset[str] = frozenset()) -> ObjectDigest:
    """Digest an object.

    Args:
        value: the object.
        torch: :mod:`kaldi_compat.torch.extractors` if torch is imported, otherwise None.
        excluded: paths of values that are not part of the digest, since calls change them.
    """
    walk = _Walk(torch, excluded)
    label, children, _ = walk.expand(value, "")
    if not children:
        children = [_Child("call", value)]
    else:
        walk.open.add(id(value))
        if walk.is_module(value):
            walk.found.modules.append(value)
    walk.add_files(type(value).__module__)
    nodes = {child.name: walk.of(child.value, child.name) for child in walk.compared(children, "")}
    walk.found.parts = {name: node.digest.hex() for name, node in nodes.items()}
    walk.found.root = Node(b"", OTHER, label, nodes, _is_users(_owner(value)))
    return walk.found


def changed_values(before: ObjectDigest, after: ObjectDigest, excluded: Container[str] = ()) -> dict[str, str]:
    """Return the paths of values that calls of an object have changed.

    These are numbers, texts and other values without content, as far as possible, and never the container around them.

    Args:
        before: digest before the calls, of everything.
        after: digest after them, without what is ``excluded``.
        excluded: paths that are known already.

    Returns:
        why a value cannot be compared by its path; "" for a count, which need not be compared.
    """
    comparison = _Comparison(excluded)
    comparison.compare("", before.root, after.root, True)
    return comparison.found


class _Comparison:
    def __init__(self, excluded: Container[str]) -> None:
        self.excluded, self.found = excluded, dict[str, str]()
        self.seen: set[tuple[int, int]] = set()

    def compare(self, path: str, old: Node, new: Node, is_users: bool) -> bool:
        """Compare two states of a value; return True if they differ."""
        if path in self.excluded or (old.digest == new.digest and path):
            return path in self.excluded
        key = id(old), id(new)
        if key in self.seen:
            return True
        self.seen.add(key)
        if old.children and new.children and old.label == new.label:
            names = dict.fromkeys([*old.children, *new.children])
            owner = is_users if new.is_users is None else new.is_users
            found = [
                self.compare(_path(path, name), old.children.get(name, NOTHING), new.children.get(name, NOTHING), owner)
                for name in names
            ]
            if any(found) or not path:
                return True
        self.found[path] = _reason(old, new, is_users)
        return True


def _reason(old: Node, new: Node, is_users: bool) -> str:
    """Return why a value that calls have changed cannot be compared; "" if it need not be.

    A cache of a library holds arrays, too. Therefore only a module of torch, or a change of an array, counts there.
    """
    if new.kind == IGNORED or (new.kind == CODE and not new.has_arrays and not old.has_arrays):
        return ""
    has_appeared = old.kind == EMPTY
    if is_users:
        single = (COUNT, EMPTY) if has_appeared else (COUNT, NUMBER, EMPTY)
        is_comparable = new.kind not in single or old.kind not in (COUNT, NUMBER, EMPTY, IGNORED)
    else:
        is_comparable = new.has_modules if has_appeared else old.has_arrays
    return "" if not is_comparable else "made in its first call" if has_appeared else "changed by its calls"


def _path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _is_time(value: float) -> bool:
    """Return True for a time of one of Python's clocks in the last minutes."""
    clocks = time.time(), time.monotonic(), time.perf_counter()
    return not value.is_integer() and any(now - 600 < value <= now for now in clocks if now > 3600)


class _Walk:
    """A walk through everything that an object refers to."""

    def __init__(self, torch: Any, excluded: frozenset[str]) -> None:
        self.found, self.torch, self.excluded = ObjectDigest(), torch, excluded
        self.nodes: dict[int, Node] = {}
        self.open: set[int] = set()
        self.alive: list[Any] = []  # Python gives the id of a deleted object to another one.

    def is_module(self, value: Any) -> bool:
        """Return True for a module of torch."""
        return bool(self.torch and self.torch.is_module(value))

    def compared(self, children: list[_Child], path: str) -> list[_Child]:
        """Return the values that are part of the digest."""
        if not self.excluded:
            return children
        return [child for child in children if _path(path, child.name) not in self.excluded]

    def of(self, value: Any, path: str) -> Node:
        """Digest a value."""
        kind = type(value)
        if kind in PLAIN:
            is_number = kind in (float, complex) and not _is_time(float(value.real))
            return _leaf(EMPTY if value is None else NUMBER if is_number else COUNT, kind.__name__, _plain_bytes(value))
        key = id(value)
        if key in self.nodes:
            return self.nodes[key]
        if key in self.open:
            return _leaf(OTHER, "cycle", kind.__qualname__)
        if len(self.open) >= MAX_DEPTH or len(self.nodes) >= MAX_OBJECTS:
            return self.report(path, value, "nested too deeply" if len(self.open) >= MAX_DEPTH else "too large")
        self.open.add(key)
        self.alive.append(value)
        try:
            node = self._of_new(value, path)
        except Exception as error:
            node = self.report(path, value, str(error) or type(error).__name__)
        finally:
            self.open.discard(key)
        self.nodes[key] = node
        return node

    def report(self, path: str, value: Any, why: str = "") -> Node:
        """Record an object that has no comparable state."""
        name = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
        self.found.opaque[path] = f"{name}: {why}" if why else name
        return _leaf(OTHER, "opaque", name)

    def _of_new(self, value: Any, path: str) -> Node:
        if (content := self._array_content(value)) is not None:
            return _leaf(OTHER, "array", *content)._replace(has_arrays=True)
        if (content := self._other_content(value)) is not None:
            if content[0] == "irrelevant" and (why := _hidden_content(value)):
                self.report(path, value, why)
            return _leaf(IGNORED if content[0] in ("irrelevant", "module", "code") else COUNT, *content)
        if self.is_outside(value):
            return self.report(path, value)
        label, children, is_ordered = self.expand(value, path)
        if children is None:
            return self.report(path, value)
        children = self.compared(children, path)
        nodes = [(child.name, self.of(child.value, _path(path, child.name))) for child in children]
        is_module = self.is_module(value)
        if is_module:
            self.found.modules.append(value)
        deep = [_hash(name, node.digest) if is_ordered else node.digest for name, node in nodes]
        kind, named = _name_of(type(value)), dict(nodes)
        has_modules = is_module or any(node.has_modules for _, node in nodes)
        digest, meaning = _hash(label, kind, *(deep if is_ordered else sorted(deep))), self.kind_of(value, label)
        if meaning == COUNT:
            return Node(digest, COUNT)
        return Node(
            digest,
            meaning,
            f"{label} {kind}",
            named if is_ordered and len(named) == len(nodes) else {},
            None if type(value) in CONTAINERS else _is_users(value.__name__ if label == "module" else _owner(value)),
            has_modules or any(node.has_arrays for _, node in nodes),
            has_modules,
        )

    def kind_of(self, value: Any, label: str) -> str:
        """Return what a change of an object means."""
        if isinstance(value, RANDOM) or (self.torch and self.torch.is_generator(value)) or _counts(value):
            return COUNT
        if label in ("class", "function", "module"):
            return CODE
        return EMPTY if isinstance(value, CONTAINERS) and not len(value) else OTHER

    def is_outside(self, value: Any) -> bool:
        """Return True for an object that stands for another process or library."""
        return any(f"{each.__module__}.{each.__qualname__}" in OUTSIDE for each in type(value).__mro__)

    def _array_content(self, value: Any) -> tuple[Any, ...] | None:
        if isinstance(value, np.generic):
            value = np.asarray(value)
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            mask = [np.ma.getmaskarray(value)] if isinstance(value, np.ma.MaskedArray) else []
            return tuple(part for each in (np.asarray(value), *mask) for part in _array_parts(each))
        return self.torch.tensor_content(value) if self.torch else None

    def _other_content(self, value: Any) -> tuple[Any, ...] | None:
        """Return the content of a value that refers to no other one; None for values that do."""
        if isinstance(value, np.dtype):
            return "dtype", value.str
        if self.torch and (name := self.torch.constant_name(value)):
            return "torch", _DEVICE.sub("device", name)
        if isinstance(value, IRRELEVANT) or any(value is each for each in STREAMS):
            return "irrelevant", _name_of(type(value))
        if isinstance(value, enum.Enum):
            return "enum", _name_of(type(value)), value.name
        if isinstance(value, str | int | float | complex | bytes):  # a class derived from one of them
            base: Any = next(kind for kind in PLAIN if isinstance(value, kind))
            if not _is_users(type(value).__module__) and not getattr(value, "__dict__", None):
                return "plain", _name_of(type(value)), _plain_bytes(base(value))
        if isinstance(value, PurePath):
            return "path", str(value)
        is_library = isinstance(value, types.ModuleType) and not _is_users(value.__name__)
        if is_library or value is sys.modules["__main__"]:
            return "module", value.__name__
        if isinstance(value, type | types.FunctionType) and not _is_users(value.__module__):
            return "code", _name_of(value)
        return None

    def expand(self, value: Any, path: str) -> tuple[str, list[_Child] | None, bool]:
        """Return the kind of a value, the values that it refers to, and whether their order counts.

        The values are None if the object has no comparable state.
        """
        if isinstance(value, types.ModuleType):
            self.add_files(value.__name__)
            return "module", [_Child(*each) for each in sorted(vars(value).items()) if not _is_dunder(each[0])], True
        if isinstance(value, type):
            self.add_files(value.__module__)
            return "class", list(_class_children(value)), True
        if isinstance(value, types.FunctionType):
            self.add_files(value.__module__)
            return "function", list(_function_children(value)), True
        if isinstance(value, types.MethodType):
            return "method", [_Child("__self__", value.__self__), _Child("__func__", value.__func__)], True
        if type(value) in CONTAINERS:
            return _container_children(value)
        if isinstance(value, staticmethod | classmethod | property | functools.cached_property):
            names = ("__func__", "fget", "func")
            return "accessor", [_Child("", getattr(value, name)) for name in names if hasattr(value, name)], True
        if isinstance(value, functools._lru_cache_wrapper):
            if _is_users(value.__module__) and value.cache_info().currsize:
                self.report(path, value, "a cache that is not empty")
            return "cached", [_Child("", value.__wrapped__)], True
        if isinstance(value, types.BuiltinFunctionType):
            owner = value.__self__
            bound = [] if owner is None or isinstance(owner, types.ModuleType) else [_Child("", owner)]
            return "builtin", [_Child("name", value.__qualname__), *bound], True
        if isinstance(value, np.ndarray):
            return "array", [_Child("shape", str(value.shape)), _Child("", value.ravel().tolist())], True
        if isinstance(value, str | int | float | complex | bytes):  # of a class of the user's, or with attributes
            base: Any = next(kind for kind in PLAIN if isinstance(value, kind))
            own = [_Child(*each) for each in getattr(value, "__dict__", {}).items()]
            return "number", [_Child("class", type(value)), _Child("[]", base(value)), *own], True
        if (state := self._state(value)) is not None:
            children = [_Child(name, each) for name, each in state.items()]
            content = [_Child("[]", _as_container(value))] if isinstance(value, CONTAINERS) else []
            return "object", [_Child("class", type(value)), *children, *content], True
        return _reduced(value)

    def _state(self, value: Any) -> dict[str, Any] | None:
        """Return the attributes of an object; None if it is not made by a Python class."""
        if self.is_module(value):
            return dict(self.torch.module_state(value))
        kind: Any = type(value)
        if _has_hidden_state(kind):
            return None
        slots = [name for kind in type(value).__mro__ for name in _slots_of(kind)]
        attributes = getattr(value, "__dict__", {})
        state = dict(attributes)
        for name in slots:
            with contextlib.suppress(AttributeError):  # it is not set
                state[name] = getattr(value, name)
        return {name: each for name, each in state.items() if isinstance(name, str)}

    def add_files(self, name: str) -> None:
        """Record the file of a module of the user's."""
        # A script may change between two runs of it: its functions are compared by their code.
        if name != "__main__" and _is_users(name) and (path := module_path(name)):
            self.found.files[name] = path


def _leaf(kind: str, *parts: str | bytes | memoryview) -> Node:
    return Node(_hash(*parts), kind)


def _owner(value: Any) -> str:
    """Return the module that an object's code comes from."""
    is_code = isinstance(value, type | types.FunctionType | functools._lru_cache_wrapper)
    return str((value if is_code else type(value)).__module__)


def _counts(value: Any) -> bool:
    """Return True for a dictionary that is made for counts and has nothing else."""
    is_counter = isinstance(value, Counter) or (isinstance(value, defaultdict) and value.default_factory is int)
    return is_counter and all(type(each) is int for each in value.values())


def _hidden_content(value: Any) -> str:
    """Return why an object whose own state decides no numbers holds others that may; "" if it holds none."""
    if isinstance(value, threading.Thread):
        return "a thread"
    if isinstance(value, queue.Queue | queue.SimpleQueue):
        return "" if value.empty() else "a queue that is not empty"
    if isinstance(value, threading.local):
        return "the content of a thread" if vars(value) else ""
    if isinstance(value, weakref.WeakKeyDictionary | weakref.WeakValueDictionary | weakref.WeakSet):
        return "a weak container that is not empty" if len(value) else ""
    return ""


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _hash(*parts: str | bytes | memoryview) -> bytes:
    hasher = hashlib.sha256()
    for part in parts:
        content = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        hasher.update(b"%d:" % len(content))
        hasher.update(content)
    return hasher.digest()


def _array_parts(array: Any) -> Iterator[str | memoryview]:
    yield f"{array.dtype.descr if array.dtype.names else array.dtype.str} {array.shape}"
    yield np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _plain_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return b"device" if _DEVICE.fullmatch(value) else value.encode("utf-8", "surrogatepass")
    if isinstance(value, int):
        return b"%x" % value  # str() of a very large integer is an error
    return value if isinstance(value, bytes) else repr(value).encode()


def _name_of(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"


def _container_children(value: Any) -> tuple[str, list[_Child], bool]:
    """Return the content of a container. Plain values become one string, so that large lists take no time."""
    kind = type(value).__name__
    if isinstance(value, dict | types.MappingProxyType):
        if all(type(key) in PLAIN for key in value) and (
            len(value) <= MAX_SINGLE or not all(type(each) in PLAIN for each in value.values())
        ):
            return (
                kind,
                sorted((_Child(_name_of_key(key), each) for key, each in value.items()), key=itemgetter(0)),
                True,
            )
        if all(type(each) in PLAIN for pair in value.items() for each in pair):
            return kind, [_Child("", sorted(repr((_one(key), _one(each))) for key, each in value.items()))], True
        pairs = [_Child(str(key) if type(key) in PLAIN else "", (key, each)) for key, each in value.items()]
        return kind, pairs, False
    is_ordered = not isinstance(value, set | frozenset)
    is_single = is_ordered and len(value) <= MAX_SINGLE
    if not is_single and all(type(each) in PLAIN for each in value):
        content = [_one(each) for each in value]
        return kind, [_Child("", repr(content) if is_ordered else repr(sorted(map(repr, content))))], True
    return kind, [_Child(str(number), each) for number, each in enumerate(value)], is_ordered


def _name_of_key(key: Any) -> str:
    if type(key) is not str:
        return f"[{_one(key)!r}]"
    return "device" if _DEVICE.fullmatch(key) else key


def _one(value: Any) -> Any:
    """Return a plain value with devices replaced and large integers as strings."""
    kind = type(value)
    is_special = (kind is str and _DEVICE.fullmatch(value)) or (kind is int and abs(value) >= 1 << 64)
    return _plain_bytes(value) if is_special else value


def _as_container(value: Any) -> Any:
    """Return the content of an object that derives from a container."""
    base = next(kind for kind in CONTAINERS if isinstance(value, kind))
    return dict(dict.items(value)) if base is dict else base(base.__iter__(value))  # type: ignore[arg-type]


def _slots_of(kind: type) -> list[str]:
    names = kind.__dict__.get("__slots__", ())
    listed = [names] if isinstance(names, str) else list(names)
    return [
        f"_{kind.__name__.lstrip('_')}{name}" if name.startswith("__") and not name.endswith("__") else name
        for name in listed
        if name not in ("__dict__", "__weakref__")
    ]


def _class_children(kind: type) -> Iterator[_Child]:
    """Yield the attributes and methods of the user's classes among the bases of a class."""
    for base in kind.__mro__:
        if not _is_users(base.__module__):
            yield _Child("base", _name_of(base))
            continue
        for name, value in vars(base).items():
            is_function = isinstance(value, types.FunctionType)
            if name.startswith(("_abc_", "__pydantic")) or (name in OF_ANY_CLASS and not is_function):
                continue
            yield _Child(name if base is kind else f"{base.__qualname__}.{name}", value)
    if type(kind) is not type and _is_users(type(kind).__module__):
        yield _Child("metaclass", type(kind))


def _function_children(function: types.FunctionType) -> Iterator[_Child]:
    """Yield what the code of a function refers to: defaults, cells, attributes, and globals by name."""
    code = function.__code__
    if module_path(function.__module__) is None or function.__module__ == "__main__":
        yield _Child("code", _code_digest(code))  # otherwise the module's file is compared
    yield _Child("defaults", (function.__defaults__, function.__kwdefaults__))
    for attribute, value in function.__dict__.items():
        yield _Child(attribute, value)
    for cell_name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # the cell is empty
            yield _Child(cell_name, cell.cell_contents)
    global_names, imported = _names_in(code)
    if global_names & ALL_GLOBALS:
        global_names |= {each for each in function.__globals__ if not _is_dunder(each)}
    for each in sorted(global_names & function.__globals__.keys()):
        yield _Child(each, function.__globals__[each])
    for each in sorted(imported & sys.modules.keys()):
        yield _Child(f"import {each}", sys.modules[each])


@functools.lru_cache(100_000)
def _names_in(code: types.CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of globals that code refers to, and of modules that it imports."""
    found = [_names_in(each) for each in code.co_consts if isinstance(each, types.CodeType)]
    names = [(each.opname, each.argval) for each in dis.get_instructions(code)]
    loads = frozenset(name for kind, name in names if kind in ("LOAD_GLOBAL", "LOAD_NAME"))
    imports = frozenset(name for kind, name in names if kind == "IMPORT_NAME")
    return loads.union(*(each for each, _ in found)), imports.union(*(each for _, each in found))


def _code_digest(code: types.CodeType) -> bytes:
    constants = [
        _code_digest(each) if isinstance(each, types.CodeType) else _constant_bytes(each) for each in code.co_consts
    ]
    return _hash(code.co_code, " ".join(code.co_names + code.co_varnames + code.co_freevars), *constants)


def _constant_bytes(value: Any) -> bytes:
    if isinstance(value, frozenset):
        return _hash(*sorted(map(_constant_bytes, value)))
    return _hash(*map(_constant_bytes, value)) if isinstance(value, tuple) else _plain_bytes(value)


def _reduced(value: Any) -> tuple[str, list[_Child] | None, bool]:
    """Return the state that a C object gives to pickle, such as the state of a random generator."""
    if isinstance(value, Iterator) and not isinstance(value, itertools.count | itertools.repeat | itertools.cycle):
        return "iterator", None, True
    try:
        register = copyreg.dispatch_table.get(type(value))
        state: Any = register(value) if register else value.__reduce_ex__(4)
    except Exception:
        return "opaque", None, True
    if isinstance(state, str):
        return "named", [_Child("", state)], True
    parts = [list(each) if isinstance(each, Iterator) else each for each in state]
    return "reduced", [_Child(str(number), each) for number, each in enumerate(parts)], True


@functools.cache
def _has_hidden_state(kind: type) -> bool:
    """Return True if a class, or a base of it, is written in C and has more state than Python's attributes show."""
    for each in kind.__mro__:
        base = each.__base__
        if base is None or each in CONTAINERS or each in (types.SimpleNamespace, OrderedDict):
            continue
        # An attribute dictionary and a list of weak references have a pointer each, and so has each slot.
        visible = (2 + len(_slots_of(each))) * _POINTER
        if not each.__flags__ & _PY_TPFLAGS_HEAPTYPE or each.__basicsize__ - base.__basicsize__ > visible:
            return True
    return False


@functools.cache
def _library_folders() -> tuple[Path, ...]:
    names = {*sysconfig.get_paths().values(), site.getusersitepackages()}
    return tuple(Path(name).resolve() for name in names if name)


def module_path(name: str) -> Path | None:
    """Return the file of an imported module; None if it has none."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return Path(file).absolute() if isinstance(file, str) else None


def _is_users(name: str | None) -> bool:
    """Return True for a module that is not a part of Python, of an installed package, or of this project."""
    if not isinstance(name, str) or name == "__main__":
        return True
    if name.partition(".")[0] in _OURS or name in sys.builtin_module_names:
        return False
    path = module_path(name)
    if path is None:
        return name not in sys.modules or type(sys.modules[name].__spec__) is type(None)
    return not _is_in_library(path)


@functools.lru_cache(100_000)
def _is_in_library(path: Path) -> bool:
    if {"site-packages", "dist-packages"} & set(path.parts):
        return True
    return any(path.resolve().is_relative_to(folder) for folder in _library_folders())


def imported_files(before: Mapping[str, Any]) -> dict[str, Path]:
    """Return the files of the user's modules that were imported since ``sys.modules`` was ``before``."""
    new = [name for name in list(sys.modules) if name not in before and name != "__main__" and _is_users(name)]
    return {name: path for name in new if (path := module_path(name))}
