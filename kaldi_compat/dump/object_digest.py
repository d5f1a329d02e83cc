"""Digest everything that determines the results of a Python object: attributes, arrays, weights, code, source files.

Two processes that construct the same object compute the same digest. Memory addresses, devices, the order of sets and
Python's hash seed have no effect. An object without comparable state, such as a session of a C library, is reported.
"""

from __future__ import annotations

import contextlib
import copyreg
import ctypes
import dis
import functools
import hashlib
import io
import itertools
import logging
import queue
import re
import sys
import threading
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np

from kaldi_compat.dump.user_modules import find_module_path, is_user_module

PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented))
LOGGING = (logging.Logger, logging.Handler, logging.LoggerAdapter)
# Types whose state normally does not affect the results of an extractor. _describe_hidden_content reports exceptions.
IRRELEVANT = (
    *LOGGING, Executor, queue.Queue, queue.SimpleQueue, threading.Thread,
    threading.Event, threading.Condition, threading.Semaphore, threading.local, type(threading.Lock()),
    type(threading.RLock()), weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet,
)  # fmt: skip
# Attributes of classes that are implemented in C, such as numpy.ndarray.mean. They are identified by their names.
DESCRIPTORS = (
    types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType, types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
)  # fmt: skip
# Names of Python classes whose state is in another process or in a C library, so that it cannot be compared.
EXTERNAL_STATE = {"subprocess.Popen", "socket.socket", "ctypes.CDLL", "multiprocessing.process.BaseProcess"}
STREAMS = (sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__)
CONTAINERS = (list, tuple, deque, set, frozenset, dict, types.MappingProxyType)
RANDOM = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, itertools.count)
# Attributes that Python adds to classes. They are not digested, except functions such as a method __hash__.
CLASS_INTERNALS = {
    "__module__", "__qualname__", "__name__", "__doc__", "__dict__", "__weakref__", "__annotations__",
    "__annotate__", "__annotate_func__", "__annotations_cache__", "__slots__", "__parameters__",
    "__orig_bases__", "__abstractmethods__", "__match_args__", "__hash__", "__dataclass_fields__",
    "__dataclass_params__", "__firstlineno__", "__static_attributes__", "__type_params__",
}  # fmt: skip
# Modules of torch's own tensor classes. Extra attributes of such a tensor were set by the user, so they are digested.
# Extra attributes of a library's tensor class belong to the library, and are not digested.
TENSOR_MODULES = ("torch", "torch.nn.parameter")
# A function that uses one of these functions may use any global, so all globals are digested.
ALL_GLOBALS = {"globals", "eval", "exec"}
MAX_SINGLE_VALUES = 64  # A container of more plain values is digested as one string, which takes less time.
MAX_DEPTH = 150  # Maximum depth of nested objects. A level takes 3 nested calls, of which Python allows 1000.
MAX_OBJECTS = 200_000  # Maximum number of objects in a digest: 10 seconds at 50 microseconds per object.
MAX_CACHED_FUNCTIONS = 100_000  # Maximum number of code objects whose names of globals are remembered.
_DEVICE = re.compile(r"(cpu|cuda|mps|xpu)(:\d+)?")
_PY_TPFLAGS_HEAPTYPE = 1 << 9  # CPython's flag of classes that are created at run time (object.h).
_POINTER_BYTES = ctypes.sizeof(ctypes.c_void_p)


class Node(NamedTuple):
    """Digest of a value and of everything that the value refers to."""

    digest: bytes  # SHA-256 of the value and of everything that it refers to.
    label: str = ""  # Kind and class of an object or container; "" for other values.
    # Nodes of the values that this value refers to by name. Empty if these values have no names.
    children: Mapping[str, Node] = {}
    # True for an object of the user's code, False for a library's object, None for other values.
    is_user_object: bool | None = None
    has_arrays: bool = False  # True if the value is or holds an array, a tensor or a module of torch.
    # True if the value may hold weights or tables. False for numbers, strings, None, empty containers, random
    # generators, code, loggers and locks.
    has_content: bool = False


MISSING = Node(b"")


@dataclass
class ObjectDigest:
    """Digest of an object, and lists of the parts that the digest leaves out or depends on."""

    parts: dict[str, str] = field(default_factory=dict)  # Digest of each attribute of the object, by name.
    opaque: dict[str, str] = field(default_factory=dict)  # Type of each object that has no comparable state, by path.
    # Keys of ``opaque`` whose objects were reported only for what they hold now, such as caches, queues and threads.
    filled: set[str] = field(default_factory=set)
    root: Node = MISSING  # The object with everything that it refers to.
    modules: list[Any] = field(default_factory=list)  # Modules of torch that the object refers to.
    # Source files of the user's modules that the object uses, by module name.
    files: dict[str, Path] = field(default_factory=dict)


Child = tuple[str, Any]  # Name of a reference from a value, such as an attribute, and the value that it refers to.


def digest_object(value: Any, torch: Any, excluded: frozenset[str] = frozenset()) -> ObjectDigest:
    """Digest each attribute of an object, with everything that the attribute refers to.

    ``torch`` is :mod:`kaldi_compat.torch.extractors` if torch is imported, otherwise None. ``excluded`` has the paths
    of values that are not part of the digest, because calls change them.
    """
    walk = _Walk(torch, excluded)
    label, children, _ = walk.list_children(value, "")
    if not children:  # A value without comparable parts is digested as one part.
        children = [("call", value)]
    else:
        walk.outer[id(value)] = None
        if walk.is_module(value):
            walk.result.modules.append(value)
    walk.add_file(type(value).__module__)
    nodes = {name: walk.digest_value(child, name) for name, child in children if name not in excluded}
    walk.result.parts = {name: node.digest.hex() for name, node in nodes.items()}
    walk.result.root = Node(b"", label, nodes, is_user_module(_get_module_name(value)))
    return walk.result


def find_changed_values(old: ObjectDigest, new: ObjectDigest) -> dict[str, str]:
    """Find the values that have changed between two digests of an object, before and after calls.

    The paths lead to the smallest values that changed, and never to the container around them.

    Returns:
        the reason why each changed value cannot be compared, by path. The reason is "" for a number, a string, or a
        value that the calls have created, because these need not be compared.
    """
    return _find_changes(old.root, new.root, is_user_object=True, cache={})


def _find_changes(
    old: Node, new: Node, is_user_object: bool, cache: dict[tuple[int, int], dict[str, str]]
) -> dict[str, str]:
    """Find the changes between two states of a value. Return the reasons by path, relative to the value.

    The result is empty if the states have different classes, or one of them refers to no values by name.
    ``is_user_object`` is True if the closest object around the value belongs to the user's code. ``cache`` holds the
    results by the ids of the two states.
    """
    if not (old.children and new.children and old.label == new.label):
        return {}
    if (id(old), id(new)) in cache:
        return cache[id(old), id(new)]
    changes = cache[id(old), id(new)] = {}
    is_user_object = is_user_object if new.is_user_object is None else new.is_user_object
    for name in dict.fromkeys([*old.children, *new.children]):
        old_child, new_child = old.children.get(name, MISSING), new.children.get(name, MISSING)
        if old_child.digest == new_child.digest:
            continue
        if inner := _find_changes(old_child, new_child, is_user_object, cache):
            changes |= {_join_path(name, path): reason for path, reason in inner.items()}
        else:
            # A library's object may fill a table in a call without harm, but an array that changes may be a weight.
            had_content = old_child.has_content if is_user_object else old_child.has_arrays
            changes[name] = "changed by its calls" if had_content else ""
    return changes


def _join_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


class _Walk:
    """Visits everything that an object refers to. For the arguments, see :func:`digest_object`."""

    def __init__(self, torch: Any, excluded: frozenset[str]) -> None:
        self.result, self.torch, self.excluded = ObjectDigest(), torch, excluded
        self.nodes: dict[int, Node] = {}
        self.outer: dict[int, None] = {}  # Ids of the objects around the current one, outermost first.
        self.visited: list[Any] = []  # Visited objects. Python could give the id of a deleted one to a new object.

    def is_module(self, value: Any) -> bool:
        """Return True for an instance of ``torch.nn.Module``."""
        return bool(self.torch and self.torch.is_module(value))

    def digest_value(self, value: Any, path: str) -> Node:
        """Return the node of a value. An object that was seen before has the same node.

        ``path`` leads from the digested object to the value. Reports and ``excluded`` identify values by their paths.
        """
        kind = type(value)
        if kind in PLAIN:
            return Node(_hash(kind.__name__, _encode_plain(value)))
        key = id(value)
        if key in self.nodes:
            return self.nodes[key]
        if key in self.outer:
            return Node(_hash("cycle", str(list(self.outer).index(key))), has_content=True)  # Depth of the value.
        if len(self.outer) >= MAX_DEPTH or len(self.nodes) >= MAX_OBJECTS:
            return self.report_opaque(path, value, "nested too deeply" if len(self.outer) >= MAX_DEPTH else "too large")
        self.outer[key] = None
        self.visited.append(value)
        try:
            node = self._digest_new_value(value, path)
        except Exception as error:
            node = self.report_opaque(path, value, str(error) or type(error).__name__)
        finally:
            del self.outer[key]
        self.nodes[key] = node
        return node

    def report_opaque(self, path: str, value: Any, reason: str = "", *, is_content: bool = False) -> Node:
        """Report an object that is not compared, and return its node. With ``is_content``, report only its content."""
        name = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
        self.result.opaque[path] = f"{name}: {reason}" if reason else name
        if is_content:
            self.result.filled.add(path)
        return Node(_hash("opaque", name), has_content=True)

    def _digest_new_value(self, value: Any, path: str) -> Node:
        """Return the node of an object that was not seen before, from its content and the values that it refers to."""
        leaf = self._make_leaf(value)
        attributes = _list_own_attributes(value) if leaf and self._may_have_attributes(value) else []
        if isinstance(value, IRRELEVANT) and not isinstance(value, LOGGING) and is_user_module(type(value).__module__):
            return self.report_opaque(path, value, _describe_hidden_content(value))  # The class may have added weights.
        if leaf and not attributes:
            if isinstance(value, IRRELEVANT) and (reason := _describe_hidden_content(value)):
                self.report_opaque(path, value, reason, is_content=True)
            return leaf
        if not leaf and any(f"{base.__module__}.{base.__qualname__}" in EXTERNAL_STATE for base in type(value).__mro__):
            return self.report_opaque(path, value)
        label, children, is_ordered = ("content", attributes, True) if leaf else self.list_children(value, path)
        if children is None:
            return self.report_opaque(path, value)
        paths = ((name, _join_path(path, name), child) for name, child in children)
        nodes = [(name, self.digest_value(child, inner)) for name, inner, child in paths if inner not in self.excluded]
        nodes += [("[]", leaf)] if leaf else []
        if self.is_module(value):
            self.result.modules.append(value)
        return self._make_node(value, label, nodes, is_ordered)

    def _make_node(self, value: Any, label: str, nodes: list[tuple[str, Node]], is_ordered: bool) -> Node:
        """Return the node of an object of the kind ``label``. ``nodes`` has the values that it refers to, with names.

        If ``is_ordered`` is False, the names and the order of the values have no effect on the digest.
        """
        digests = [_hash(name, node.digest) if is_ordered else node.digest for name, node in nodes]
        digest = _hash(label, _get_name(type(value)), *(digests if is_ordered else sorted(digests)))
        if isinstance(value, RANDOM) or (self.torch and self.torch.is_generator(value)):
            return Node(digest)
        has_arrays = self.is_module(value) or any(node.has_arrays for _, node in nodes)
        is_filled = not isinstance(value, CONTAINERS) or bool(len(value))
        module_name = value.__name__ if label == "module" else _get_module_name(value)
        children_by_name = dict(nodes)
        return Node(
            digest,
            label=f"{label} {_get_name(type(value))}",
            children=children_by_name if is_ordered and len(children_by_name) == len(nodes) else {},
            is_user_object=None if type(value) in CONTAINERS else is_user_module(module_name),
            has_arrays=has_arrays,
            has_content=has_arrays if label in _CODE else is_filled,
        )

    def _may_have_attributes(self, value: Any) -> bool:
        """Return True for an array, path or tensor to which the user may have added attributes."""
        if isinstance(value, np.ndarray | PurePath) or (self.torch and self.torch.is_tensor_or_storage(value)):
            return type(value).__module__ in TENSOR_MODULES or is_user_module(type(value).__module__)
        return False

    def _make_leaf(self, value: Any) -> Node | None:
        """Return the node of an array, tensor or constant, without its extra attributes, or None for other values."""
        array: Any = np.asarray(value) if isinstance(value, np.generic) else value
        if isinstance(array, np.ndarray) and not array.dtype.hasobject:
            pieces = [np.asarray(array)]
            if isinstance(array, np.ma.MaskedArray):
                pieces += [np.ma.getmaskarray(array), np.asarray(array.fill_value)]
            kinds = ["matrix"] if isinstance(value, np.matrix) else []
            data_types = [piece.dtype.descr if piece.dtype.names else piece.dtype.str for piece in pieces]
            kinds += [f"{kind} {piece.shape}" for kind, piece in zip(data_types, pieces, strict=True)]
            content = [np.ascontiguousarray(piece).reshape(-1).view(np.uint8).data for piece in pieces]
            return Node(_hash("array", *kinds, *content), has_arrays=True, has_content=True)
        if self.torch and self.torch.is_tensor_or_storage(value):
            return Node(_hash("array", *self.torch.iterate_tensor(value)), has_arrays=True, has_content=True)
        constant = self._describe_constant(value)
        return Node(_hash(*constant)) if constant else None

    def _describe_constant(self, value: Any) -> tuple[Any, ...] | None:
        """Return the kind and identity of a value whose attributes are not compared, or None for any other value."""
        if isinstance(value, np.dtype):
            return "dtype", str(value.descr) if value.names else str(value) if value.subdtype else value.str
        if self.torch and (name := self.torch.name_constant(value)):
            return "torch", _DEVICE.sub("device", name)
        is_log = isinstance(value, io.IOBase) and value.writable() and not value.readable()
        if isinstance(value, IRRELEVANT) or any(value is stream for stream in STREAMS) or is_log:
            return "irrelevant", _get_name(type(value))
        if isinstance(value, PurePath):
            return "path", str(value)
        if isinstance(value, DESCRIPTORS):
            return "code", _get_name(value.__objclass__), value.__name__
        is_library = isinstance(value, types.ModuleType) and not is_user_module(value.__name__)
        if is_library or value is sys.modules["__main__"]:
            return "module", value.__name__
        if isinstance(value, type | types.FunctionType) and not is_user_module(value.__module__):
            return None if _is_wrapper_of_user(value) else ("code", _get_name(value))
        return None

    def list_children(self, value: Any, path: str) -> tuple[str, list[Child] | None, bool]:
        """Return the kind of a value, the values that it refers to, and True if their order affects the digest.

        The list of values is None if the object has no comparable state. Source files of the user's code are recorded,
        and content that cannot be compared is reported for ``path``.
        """
        if isinstance(value, types.ModuleType):
            self.add_file(value.__name__)
            return "module", [item for item in sorted(vars(value).items()) if not _is_dunder(item[0])], True
        if isinstance(value, type):
            self.add_file(value.__module__)
            return "class", list(_list_class_children(value)), True
        if isinstance(value, types.FunctionType):
            self.add_file(value.__module__)
            self.add_file(str(value.__globals__.get("__name__")))
            return "function", list(_list_function_children(value)), True
        if isinstance(value, types.MethodType):
            return "method", [("__self__", value.__self__), ("__func__", value.__func__)], True
        if type(value) in CONTAINERS:
            return _list_container_children(value)
        if isinstance(value, staticmethod | classmethod | property | functools.cached_property):
            names = ("__func__", "fget", "fset", "func")
            return "accessor", [("", getattr(value, name)) for name in names if hasattr(value, name)], True
        if isinstance(value, functools._lru_cache_wrapper):
            if is_user_module(value.__module__) and value.cache_info().currsize:
                self.report_opaque(path, value, "a cache that is not empty", is_content=True)
            return "cached", [("", value.__wrapped__)], True
        if isinstance(value, types.BuiltinFunctionType):
            owner = value.__self__
            bound = [("", owner.__name__ if isinstance(owner, types.ModuleType) else owner)]
            return "builtin", [("name", value.__qualname__), *bound], True
        if isinstance(value, weakref.ref):
            return "reference", [("", value())], True
        if isinstance(value, np.ndarray):
            return "array", [("shape", str(value.shape)), ("", value.ravel().tolist())], True
        if isinstance(value, str | int | float | complex | bytes):  # The value's class is a subclass of one of these.
            base: Any = next(kind for kind in PLAIN if isinstance(value, kind))
            content = [("type", _get_name(type(value))), ("[]", base(value))]
            return "number", [*content, *_list_own_attributes(value)], True
        if (state := self._get_state(value)) is not None:
            content = [("[]", _convert_to_container(value))] if isinstance(value, CONTAINERS) else []
            content += [("order", _encode_keys(value))] if isinstance(value, OrderedDict) else []
            return "object", [("class", type(value)), *state.items(), *content], True
        if isinstance(value, np.ufunc) and value.__name__.endswith("(vectorized)"):
            self.report_opaque(path, value, "a function in numpy.frompyfunc", is_content=True)
        return _list_pickled_children(value)

    def _get_state(self, value: Any) -> dict[str, Any] | None:
        """Return the attributes of an object by name, or None if a base class has state that Python cannot see."""
        if self.is_module(value):
            return dict(self.torch.iterate_state(value))
        kind: Any = type(value)
        if _has_hidden_state(kind):
            return None
        # The state is sorted, because calls may delete attributes and set them again in another order.
        state = dict(sorted(getattr(value, "__dict__", {}).items(), key=lambda item: str(item[0])))
        for name in [name for base in kind.__mro__ for name in _list_slots(base)]:
            with contextlib.suppress(AttributeError):  # The slot is not set.
                state[name] = getattr(value, name)
        return {name: child for name, child in state.items() if isinstance(name, str)}

    def add_file(self, name: str) -> None:
        """Record the file, or zip archive, of the module ``name`` if it is the user's code and not the main script."""
        # The main script may change between runs without an effect on the extractor, so its functions are compared by
        # their code instead.
        if name != "__main__" and is_user_module(name) and (path := find_module_path(name)):
            self.result.files[name] = path


_CODE = ("class", "function", "module")


def _list_own_attributes(value: Any) -> list[Child]:
    """Return the attributes of a number, string, array, path or tensor, and its class if the user has defined it."""
    is_user_class = is_user_module(type(value).__module__)
    return [*([("class", type(value))] if is_user_class else []), *getattr(value, "__dict__", {}).items()]


def _is_wrapper_of_user(value: Any) -> bool:
    """Return True for a function of the user's that has the name of a library's function, by functools.wraps."""
    name = getattr(value, "__globals__", {}).get("__name__")
    return isinstance(value, types.FunctionType) and name in sys.modules and is_user_module(name)


def _get_module_name(value: Any) -> str:
    """Return the module name of ``value`` if it is a class or function, and otherwise the module name of its class."""
    is_definition = isinstance(value, type | types.FunctionType | functools._lru_cache_wrapper)
    return str((value if is_definition else type(value)).__module__)


def _describe_hidden_content(value: Any) -> str:
    """Describe the content of an :data:`IRRELEVANT` object that may affect results, or return "" if it has none."""
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
    """Return the SHA-256 of parts. The length before each part distinguishes ("ab", "c") from ("a", "bc")."""
    hasher = hashlib.sha256()
    for part in parts:
        content = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        hasher.update(b"%d:" % len(content))
        hasher.update(content)
    return hasher.digest()


def _encode_plain(value: Any) -> bytes:
    """Encode a value of one of the types :data:`PLAIN`. All names of devices, such as "cuda:0", have the same bytes."""
    if isinstance(value, str):
        return b"device" if _DEVICE.fullmatch(value) else value.encode("utf-8", "surrogatepass")
    if isinstance(value, int):
        return b"%x" % value  # str() refuses integers of thousands of digits.
    return value if isinstance(value, bytes) else repr(value).encode()


def _get_name(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"


def _list_container_children(value: Any) -> tuple[str, list[Child], bool]:
    """List the content of a container. The result has the form of :meth:`_Walk.list_children`.

    A set of plain values, and any container of over :data:`MAX_SINGLE_VALUES` plain values, form one value for speed.
    """
    kind = type(value).__name__
    if isinstance(value, dict | types.MappingProxyType):
        if not all(type(key) in PLAIN for key in value):
            return kind, [(str(key) if type(key) in PLAIN else "", (key, item)) for key, item in value.items()], False
        if len(value) > MAX_SINGLE_VALUES and all(type(item) in PLAIN for item in value.values()):
            return kind, [("", sorted(repr(tuple(map(_normalize_plain, pair))) for pair in value.items()))], True
        children = sorted(((_get_key_name(key), item) for key, item in value.items()), key=itemgetter(0))
        # Functions and modules in a dictionary may be steps, whose order affects the result.
        is_chain = len(value) > 1 and all(map(callable, value.values()))
        return kind, [*children, *([("[order]", _encode_keys(value))] if is_chain else [])], True
    is_ordered = not isinstance(value, set | frozenset)
    kind += f" {value.maxlen}" if isinstance(value, deque) else ""
    is_short_list = is_ordered and len(value) <= MAX_SINGLE_VALUES
    if not is_short_list and all(type(item) in PLAIN for item in value):
        content = [_normalize_plain(item) for item in value]
        return kind, [("", repr(content) if is_ordered else repr(sorted(map(repr, content))))], True
    return kind, [(str(number), item) for number, item in enumerate(value)], is_ordered


def _get_key_name(key: Any) -> str:
    """Return the name of the value under a plain key of a dictionary. Names of devices all become "device"."""
    if type(key) is not str:
        return f"[{_normalize_plain(key)!r}]"
    if key.startswith("["):  # Such a key could be equal to the name of another key.
        return f"[{key!r}]"
    return "device" if _DEVICE.fullmatch(key) else key


def _encode_keys(value: Mapping[Any, Any]) -> str:
    """Return the plain keys of a dictionary in their order, as one string."""
    return repr([_normalize_plain(key) for key in value if type(key) in PLAIN])


def _normalize_plain(value: Any) -> Any:
    """Encode device names and integers of over 64 bits with :func:`_encode_plain`. Return other values unchanged."""
    kind = type(value)
    is_special = (kind is str and _DEVICE.fullmatch(value)) or (kind is int and abs(value) >= 1 << 64)
    return _encode_plain(value) if is_special else value


def _convert_to_container(value: Any) -> Any:
    """Convert an instance of a container's subclass to the container class, without calling the user's methods."""
    base = next(kind for kind in CONTAINERS if isinstance(value, kind))
    if base is deque:
        return deque(deque.__iter__(value), value.maxlen)
    return dict(dict.items(value)) if base is dict else base(base.__iter__(value))  # type: ignore[arg-type]


def _list_slots(kind: type) -> list[str]:
    """Return the names of the slots of a class, without its bases. Python mangles the names of private slots."""
    names = kind.__dict__.get("__slots__", ())
    slots = [names] if isinstance(names, str) else list(names)
    return [
        f"_{kind.__name__.lstrip('_')}{name}" if name.startswith("__") and not name.endswith("__") else name
        for name in slots
        if name not in ("__dict__", "__weakref__")
    ]


def _list_class_children(kind: type) -> Iterator[Child]:
    """Yield the name and value of each attribute that a class and its bases define in the user's code.

    Leave out internal attributes. Also yield the names of bases in libraries, and a metaclass of the user's code.
    """
    for base in kind.__mro__:
        if not is_user_module(base.__module__):
            yield "base", _get_name(base)
            continue
        for name, value in sorted(vars(base).items()):
            is_function = isinstance(value, types.FunctionType)
            if name.startswith(("_abc_", "__pydantic")) or (name in CLASS_INTERNALS and not is_function):
                continue
            yield name if base is kind else f"{base.__qualname__}.{name}", value
    if type(kind) is not type and is_user_module(type(kind).__module__):
        yield "metaclass", type(kind)


def _list_function_children(function: types.FunctionType) -> Iterator[Child]:
    """Yield the code of a function, and the values that it uses: defaults, attributes, cells, globals and imports."""
    code = function.__code__
    yield "code", _digest_code(code)
    yield "defaults", (function.__defaults__, function.__kwdefaults__)
    yield from function.__dict__.items()
    for cell_name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # The cell is empty.
            yield cell_name, cell.cell_contents
    global_names, module_names = _find_names(code)
    if global_names & ALL_GLOBALS:
        global_names |= {name for name in function.__globals__ if not _is_dunder(name)}
    for name in sorted(global_names & function.__globals__.keys()):
        yield name, function.__globals__[name]
    for name in sorted(module_names & sys.modules.keys()):
        yield f"import {name}", sys.modules[name]


@functools.lru_cache(MAX_CACHED_FUNCTIONS)
def _find_names(code: types.CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the globals that a code object and its inner functions use, and the modules they import."""
    inner = [_find_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    instructions = [(instruction.opname, instruction.argval) for instruction in dis.get_instructions(code)]
    loads = frozenset(name for operation, name in instructions if operation in ("LOAD_GLOBAL", "LOAD_NAME"))
    # A function with sys.modules[__name__] may use any global, but one with "torch" in sys.modules does not.
    following = [*(operation for operation, _ in instructions[1:]), ""]
    reads_modules = any(
        name == "modules" and after != "CONTAINS_OP" for (_, name), after in zip(instructions, following, strict=True)
    )
    loads |= {"globals"} if "sys" in loads and reads_modules else set()
    imports = frozenset(name for operation, name in instructions if operation == "IMPORT_NAME")
    return loads.union(*(names for names, _ in inner)), imports.union(*(names for _, names in inner))


def _digest_code(code: types.CodeType) -> bytes:
    """Return the digest of a code object. File names and line numbers have no effect."""
    constants = [
        _digest_code(constant) if isinstance(constant, types.CodeType) else _digest_constant(constant)
        for constant in code.co_consts
    ]
    names = " ".join(code.co_names + code.co_varnames + code.co_freevars)
    exceptions = getattr(code, "co_exceptiontable", b"")  # Python before 3.11 keeps exception handlers in co_code.
    return _hash(code.co_code, names, f"{code.co_argcount} {code.co_flags}", exceptions, *constants)


def _digest_constant(value: Any) -> bytes:
    """Return the digest of a constant of a code object. The order of a frozenset has no effect."""
    kind = type(value).__name__
    if isinstance(value, frozenset):
        return _hash(kind, *sorted(map(_digest_constant, value)))
    if isinstance(value, tuple):
        return _hash(kind, *map(_digest_constant, value))
    return _hash(kind, _encode_plain(value))


def _list_pickled_children(value: Any) -> tuple[str, list[Child] | None, bool]:
    """List the values that pickle would store for a C object, such as a random generator.

    The result has the form of :meth:`_Walk.list_children`. The list is None for objects that pickle refuses, and
    for iterators except ``itertools.count``, ``repeat`` and ``cycle``.
    """
    if isinstance(value, Iterator) and not isinstance(value, itertools.count | itertools.repeat | itertools.cycle):
        return "iterator", None, True
    try:
        register = copyreg.dispatch_table.get(type(value))
        state: Any = register(value) if register else value.__reduce_ex__(4)  # 4 is pickle's protocol.
    except Exception:
        return "opaque", None, True
    if isinstance(state, str):
        return "named", [("", state)], True
    parts = [list(part) if isinstance(part, Iterator) else part for part in state]
    return "reduced", [(str(number), part) for number, part in enumerate(parts)], True


@functools.cache
def _has_hidden_state(kind: type) -> bool:
    """Return True if a class or one of its bases is written in C and has state outside of Python's attributes."""
    for derived in kind.__mro__:
        base = derived.__base__
        if base is None or derived in CONTAINERS or derived in (types.SimpleNamespace, OrderedDict):
            continue
        # The attribute dictionary, the weak references and each slot take a pointer. More bytes are hidden state.
        visible = (2 + len(_list_slots(derived))) * _POINTER_BYTES
        if not derived.__flags__ & _PY_TPFLAGS_HEAPTYPE or derived.__basicsize__ - base.__basicsize__ > visible:
            return True
    return False
