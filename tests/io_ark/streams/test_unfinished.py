"""Temporary files and folders that a killed job leaves."""

from __future__ import annotations

from pathlib import Path

from io_ark.streams.unfinished import REPLACED, choose_temporary_name, remove_unfinished


def test_folder_that_a_user_moved_into_a_replaced_folder_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "feats"
    unfinished = choose_temporary_name(target)
    replaced = unfinished.with_name(unfinished.name + REPLACED)
    for folder in (target, unfinished, replaced):
        (folder / "mine").mkdir(parents=True)
        (folder / "mine/notes").write_text("mine")
        (folder / "a.npy").touch()
        (folder / "link").symlink_to(target)
    assert remove_unfinished(target, include_own=True) == 1
    assert not unfinished.exists()
    assert sorted(path.relative_to(replaced).as_posix() for path in replaced.rglob("*")) == ["mine", "mine/notes"]
    assert sorted(path.name for path in target.iterdir()) == ["a.npy", "link", "mine"]
