"""The arrays that ``ark convert`` stores beside a manifest of lhotse, in the folder ``<manifest>_storage``.

The name of an array contains a digest of its values, so an array never replaces a different array. A conversion first
adds its arrays to the folder, then replaces the manifest, and then removes the arrays that only the old manifest names.
Whenever the conversion is killed, the manifest that is there has all of its arrays. A conversion that fails, and the
next conversion after a kill, remove the arrays that were added. Arrays that were in the folder before are kept, because
a manifest with another name may use them.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.errors import OpenError

try:
    import fcntl
except ModuleNotFoundError:  # Windows has no fcntl, and cannot lock directories.
    fcntl = None  # type: ignore[assignment]

# Matches storage keys that ark convert writes: a folder that lhotse names, and a file name from `name_array`. Neither
# can be `..`, so a key from a manifest cannot name a file outside the folder of the arrays.
_KEY = re.compile(r"[^/.]{1,3}/[^/.]+-[0-9a-f]{16}\.npy")
# Name of a file in a temporary folder with the keys of the arrays that only the old manifest names, which are removed.
_OBSOLETE = "obsolete.txt"
# Suffix of an empty file in a temporary folder. It marks an array that an earlier conversion wrote, which is kept if
# this conversion fails.
_FOUND = ".found"


def name_array(name: str, array: npt.NDArray[Any]) -> str:
    """Return a file name without suffix for an array: ``name``, and a digest of the type, the shape and the values."""
    digest = hashlib.blake2b(f"{array.dtype.str} {array.shape} ".encode(), digest_size=8)
    digest.update(np.ascontiguousarray(array).data)
    return f"{name}-{digest.hexdigest()}"


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder of manifests during the ``with`` statement. Wait while another conversion holds the lock.

    Without the lock, a conversion could remove arrays that another conversion to the same manifest is about to name.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # Do not wait if the folder cannot be locked.
            if fcntl:
                descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
                stack.callback(os.close, descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def refuse_source_in_storage(source: Path, storage: Path) -> None:
    """Raise OpenError if ``source`` lies in the folder ``storage``, or is a manifest that names an array in it."""
    folder = Path(os.path.realpath(storage))
    names = {str(entry["storage_path"]) for entry in _iterate_features(source)} if source.is_file() else {str(source)}
    # Unlike realpath, Path.resolve may raise an exception for a link that leads to itself.
    paths = [Path(os.path.realpath(name)) for name in names if "\0" not in name]
    if any(folder == path or folder in path.parents for path in paths):
        advice = "choose another target, because the conversion could remove the arrays"
        raise OpenError(f"the source has arrays in this folder: {advice}", file=str(storage))


def write_obsolete_keys(old_manifest: Path, new_manifest: Path, storage: Path) -> None:
    """Write the keys of the arrays in ``storage`` that only the old manifest names to a file beside the new manifest.

    If the conversion is killed after the manifest was replaced, the next conversion removes the arrays of this list.
    """
    keys = set(_iterate_keys(old_manifest, storage))
    if keys:
        keys.difference_update(_iterate_keys(new_manifest, storage))
        new_manifest.with_name(_OBSOLETE).write_text("".join(f"{key}\n" for key in keys), "utf-8")


def move_arrays(source: Path, storage: Path) -> None:
    """Move the files of a folder tree to the folder ``storage``. Files that are links are replaced, not followed.

    For each array that ``storage`` already has, a marker file is created in ``source`` (see :func:`remove_arrays`).
    Raise OpenError if the name of a folder belongs to a link or to a file.
    """
    check_storage(storage)
    storage.mkdir(exist_ok=True)
    for path in list(source.iterdir()):
        if path.is_dir():
            move_arrays(path, storage / path.name)
        else:
            if os.path.lexists(storage / path.name):
                path.with_suffix(_FOUND).touch()
            path.replace(storage / path.name)


def check_storage(storage: Path) -> None:
    """Raise :class:`OpenError` if ``storage``, the name of a folder for arrays, belongs to a link or to a file."""
    if storage.is_symlink():
        raise OpenError("is a link, but the arrays need a folder with this name: rename the link", file=str(storage))
    if storage.exists() and not storage.is_dir():
        raise OpenError("is not a folder, but the arrays need this name: rename the file", file=str(storage))


def remove_arrays(storage: Path, folders: Iterable[Path], kept_manifest: Path) -> None:
    """Remove arrays that failed conversions added, or that complete conversions made obsolete.

    If the new manifest is still in the temporary folder of a conversion, the conversion has failed or was killed, and
    the arrays that it added are removed, except arrays of ``kept_manifest``. Otherwise, the arrays that only the old
    manifest names are removed. Array folders that become empty are removed, and the new manifest and the list of
    obsolete arrays are removed from each temporary folder. Links are not followed.

    Args:
        storage: the folder of the arrays.
        folders: temporary folders of the conversions that write arrays to ``storage``.
        kept_manifest: path of the target manifest, whose arrays are kept: the old manifest if the conversion failed,
            otherwise the new one. It may be missing. The new manifest in a temporary folder has the same file name.
    """
    keys = set[str]()
    real_folders = [folder for folder in folders if not folder.is_symlink()]
    for folder in real_folders:
        unfinished, obsolete = folder / kept_manifest.name, folder / _OBSOLETE
        if unfinished.exists():
            keys.update(key for key in _iterate_keys(unfinished, storage) if _is_added(folder / storage.name / key))
        elif obsolete.exists():
            keys.update(filter(_KEY.fullmatch, obsolete.read_text("utf-8").split("\n")))
    if keys:
        keys.difference_update(_iterate_keys(kept_manifest, storage))
    for key in keys:
        path = storage / key
        # Keep a link or folder with the name of an array or of its folder, because the user has made it.
        if path.parent.is_symlink() or storage.is_symlink() or not (path.is_file() or path.is_symlink()):
            continue
        path.unlink(missing_ok=True)
        for folder in (path.parent, storage):
            with contextlib.suppress(OSError):  # Keep a folder with other files.
                folder.rmdir()
    # Remove the lists first. Without them, a later job ignores the other files of a temporary folder, so the caller may
    # remove these files in any order.
    for folder in real_folders:
        for name in (_OBSOLETE, kept_manifest.name):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                (folder / name).unlink()


def _is_added(temporary: Path) -> bool:
    """Return True if :func:`move_arrays` moved the file ``temporary`` of an array that the storage did not have."""
    return not (temporary.exists() or temporary.with_suffix(_FOUND).exists())


def _iterate_keys(manifest: Path, storage: Path) -> Iterator[str]:
    """Yield the keys of the arrays in the folder ``storage`` that a manifest of ``ark convert`` names."""
    for entry in _iterate_features(manifest):
        key = str(entry.get("storage_key"))
        if Path(str(entry["storage_path"])).name == storage.name and _KEY.fullmatch(key):
            yield key


def _iterate_features(manifest: Path) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects with a ``storage_path``, at any depth, of a manifest of features or cuts.

    Nothing is yielded for a missing manifest, or after the first damaged line.
    """
    open_manifest: Any = gzip.open if manifest.name.endswith(".gz") else open
    damage = (OSError, EOFError, ValueError, RecursionError, zlib.error)
    with contextlib.suppress(*damage), open_manifest(manifest, "rt", encoding="utf-8") as lines:
        for line in lines:
            values = [json.loads(line)]
            while values:
                value = values.pop()
                if isinstance(value, dict):
                    values.extend(value.values())
                    if "storage_path" in value:
                        yield value
                elif isinstance(value, list):
                    values.extend(value)
