"""Paths: every file inside the workspace can be used, no other can, and the messages say what is wrong."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from dragoman.builtin.files.workspace import OutsideError, Workspace
from dragoman.tools import Error

pytestmark = pytest.mark.usefixtures("resolving")


@pytest.fixture
def workspace(folder: Path, outside: Path) -> Workspace:
    (folder / "a/b").mkdir(parents=True)
    (folder / "a/b/file.txt").write_text("inside\n")
    (folder / "ünïcode ✓").write_text("inside\n")
    (folder / "two\nlines").write_text("inside\n")
    (folder / "~").mkdir()
    (folder / "~/file.txt").write_text("inside\n")
    links = {
        "to_file": "a/b/file.txt",
        "to_folder": "a/b",
        "absolute_inside": str(folder / "a/b"),
        "up_and_down": "a/../a/b",
        "chain": "to_folder",
        "out": str(outside),
        "out_file": str(outside / "secret.txt"),
        "out_by_dots": "../outside",
        "beside": str(folder) + "-evil",
        "magic": "/proc/self/root",
        "self": "self",
        "dangling": "a/new/file.txt",
        "dangling_out": "../outside/new.txt",
    }
    for name, target in links.items():
        (folder / name).symlink_to(target)
    evil = folder.parent / "work-evil"
    evil.mkdir()
    (evil / "secret.txt").write_text("the secret outside\n")
    return Workspace(folder)


@pytest.fixture(autouse=True)
def closing(workspace: Workspace) -> object:
    yield
    workspace.close()


def content(workspace: Workspace, path: str) -> bytes:
    return workspace.read_bytes(path, 1000)


@pytest.mark.parametrize(
    "path",
    [
        "a/b/file.txt",
        "./a//b/./file.txt",
        "a/../a/b/file.txt",
        "a/b/../../a/b/file.txt",
        "to_file",
        "to_folder/file.txt",
        "to_folder/../b/file.txt",
        "absolute_inside/file.txt",
        "up_and_down/file.txt",
        "chain/file.txt",
        "ünïcode ✓",
        "two\nlines",
        "~/file.txt",
    ],
)
def test_what_lies_inside_is_read(workspace: Workspace, path: str) -> None:
    assert content(workspace, path) == b"inside\n"


def test_an_absolute_path_inside_is_taken(workspace: Workspace, folder: Path) -> None:
    assert content(workspace, f"{folder}/a/b/file.txt") == b"inside\n"
    assert content(workspace, f"{folder}//a/./b/file.txt") == b"inside\n"
    assert workspace.find(f"{folder}/a").path == "a"


def test_an_absolute_path_in_the_spelling_that_the_workspace_was_given_in_is_taken(folder: Path) -> None:
    (folder / "x").write_text("inside\n")
    other = folder.parent / "other name"
    other.symlink_to(folder)
    with Workspace(other) as workspace:
        assert content(workspace, f"{other}/x") == content(workspace, f"{folder}/x") == b"inside\n"


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../outside/secret.txt",
        "a/../../outside/secret.txt",
        "to_folder/../../../outside/secret.txt",
        "out/secret.txt",
        "out_file",
        "out_by_dots/secret.txt",
        "beside/secret.txt",
        "magic/etc/passwd",
        "/etc/passwd",
        "/",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd/a",
        "{folder}-evil/secret.txt",
        "{folder}/../outside/secret.txt",
        "{folder}/out/secret.txt",
    ],
)
def test_what_leads_out_is_refused(workspace: Workspace, folder: Path, path: str) -> None:
    path = path.format(folder=folder)
    with pytest.raises(OutsideError, match="leads out of the workspace"):
        content(workspace, path)
    with pytest.raises(OutsideError):
        workspace.find(path)
    with pytest.raises(OutsideError), workspace.entry(path):
        pass


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("", "the path is empty"),
        ("a\0b", "NUL"),
        ("\ud800", "half a character"),
        ("x" * 5000, "5000 bytes long"),
        ("x" * 300, "a part of the name is too long"),
        ("nothing", "there is no such file or folder"),
        ("~root/x", "~ is not expanded"),
        ("a/b/file.txt/x", "is a file and not a folder"),
        ("a", "it is a folder"),
        ("self", "links lead round in circles"),
    ],
)
def test_a_path_that_cannot_be_read_is_explained(workspace: Workspace, path: str, words: str) -> None:
    with pytest.raises(Error, match=words):
        content(workspace, path)


def test_pipes_sockets_and_devices_are_left_alone(workspace: Workspace, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(Error, match="no regular file"):
        content(workspace, "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.open(folder, os.O_RDONLY)
        try:
            listener.bind(f"/proc/self/fd/{here}/socket")  # The address of a socket has room for few letters only.
        finally:
            os.close(here)
        with pytest.raises(Error, match="no regular file"):
            content(workspace, "socket")
    assert workspace.find("pipe").kind == workspace.find("socket").kind == "special"


def test_a_device_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with Workspace("/dev") as workspace, pytest.raises(Error, match="no regular file"):
        content(workspace, "zero")


@pytest.mark.parametrize(
    ("path", "real"),
    [
        ("to_file", "a/b/file.txt"),
        ("chain/file.txt", "a/b/file.txt"),
        ("chain/absent.txt", "a/b/absent.txt"),
        ("absent/folder/file", "absent/folder/file"),
        ("dangling", "a/new/file.txt"),
        ("chain/absent/file", "a/b/absent/file"),
        (".", "."),
        ("a/..", "."),
        ("absolute_inside", "a/b"),
    ],
)
def test_where_a_path_really_is(workspace: Workspace, path: str, real: str) -> None:
    assert workspace.find(path).real == real


def test_a_link_out_to_nothing_is_refused_as_well(workspace: Workspace, outside: Path) -> None:
    with pytest.raises(OutsideError):
        workspace.find("dangling_out")
    assert not (outside / "new.txt").exists()


def test_a_long_chain_of_links_is_followed_and_an_endless_one_is_not(workspace: Workspace, folder: Path) -> None:
    previous = "a/b/file.txt"
    for number in range(45):
        (folder / f"link{number}").symlink_to(previous)
        previous = f"link{number}"
    assert content(workspace, "link30") == b"inside\n"
    with pytest.raises(Error, match="round in circles"):
        content(workspace, "link44")


def test_a_workspace_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Error, match="cannot be used: there is no such file or folder"):
        Workspace(tmp_path / "nothing")
    (tmp_path / "file").write_text("")
    with pytest.raises(Error, match="cannot be used"):
        Workspace(tmp_path / "file")


def test_a_current_folder_that_is_gone_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(Error, match="the workspace the current folder cannot be used"):
        Workspace()


def test_no_descriptor_is_left_open(folder: Path, workspace: Workspace) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for path in ("a/b/file.txt", "chain/file.txt", "out/secret.txt", "self", "a/b/file.txt/x", "absent/x", "..", "a"):
        for use in (workspace.find, workspace.open_read, workspace.names, lambda path: content(workspace, path)):
            try:
                found = use(path)
            except Error:
                continue
            if isinstance(found, int):
                os.close(found)
    assert len(os.listdir("/proc/self/fd")) == before
