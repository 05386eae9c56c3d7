"""What others have put into a folder that they can write to neither hangs a run nor leads it to another file."""

import fcntl
import os
import tempfile
from types import SimpleNamespace

import pytest

from koct.base.files import temporary_name, write_text
from koct.base.locks import open_lock
from koct.errors import KoctError
from koct.workflow import queue, sources


def test_a_temporary_file_cannot_be_guessed_and_follows_no_link(folder, monkeypatch):
    (folder / "victim").write_text("kept")
    assert temporary_name("page.html") != temporary_name("page.html")
    monkeypatch.setattr(os, "urandom", lambda count: bytes(count))
    (folder / temporary_name("page.html")).symlink_to("victim")
    with pytest.raises(FileExistsError):
        write_text("page.html", "new")
    assert (folder / "victim").read_text() == "kept"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a link to another user")
def test_another_users_link_in_a_folder_of_all_is_not_followed(folder):
    (folder / "victim").write_text("kept")
    (folder / "page.html").symlink_to("victim")
    os.chmod(folder, 0o1777)
    os.chown("page.html", 12345, -1, follow_symlinks=False)
    with pytest.raises(PermissionError, match="a link or a pipe of another user's"):
        write_text("page.html", "new")
    os.chown("page.html", 0, -1, follow_symlinks=False)
    write_text("page.html", "new")
    assert (folder / "victim").read_text() == "new"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a link to another user")
@pytest.mark.parametrize("way", ["own/page.html", "all/linked/page.html", "all/pipe"])
def test_nor_is_one_on_the_way_nor_a_pipe_written_to(folder, way):
    for name in ("own", "all", "all/victims"):
        os.mkdir(name)
    (folder / "all/victims/page.html").write_text("kept")
    os.symlink("../all/page.html", "own/page.html")
    os.symlink("victims/page.html", "all/page.html")
    os.symlink("victims", "all/linked")
    os.mkfifo("all/pipe")
    for name in ("all/page.html", "all/linked", "all/pipe"):
        os.chown(name, 12345, -1, follow_symlinks=False)
    os.chmod("all", 0o1777)
    with pytest.raises(PermissionError, match="a link or a pipe of another user's"):
        write_text(way, "new")
    assert (folder / "all/victims/page.html").read_text() == "kept"
    write_text("own/other/../new.html", "new")
    write_text(folder / "all/victims/../mine.html", "new")


def test_nobody_else_can_open_a_lock(folder):
    (folder / "lock").touch(0o644)
    with open_lock("lock"), open_lock("new"):
        assert {os.stat(name).st_mode & 0o777 for name in ("lock", "new")} == {0o600}


@pytest.mark.parametrize("plant", [lambda path: os.symlink("../victim", path), os.mkfifo], ids=["link", "pipe"])
@pytest.mark.parametrize("lock", queue.LOCKS)
def test_the_lock_of_a_folder_is_a_file_of_its_own(folder, plant, lock):
    os.mkdir(os.path.dirname(lock))
    (folder / "victim").write_text("kept")
    plant(lock)
    with pytest.raises(KoctError, match=r"which a run locks, cannot be written: .*; remove it, or allow it"):
        queue.take_locks()
    assert (folder / "victim").read_text() == "kept"


@pytest.mark.parametrize("plant", [lambda path: os.symlink("/dev/zero", path), os.mkfifo], ids=["device", "pipe"])
def test_what_an_earlier_run_wrote_down_is_a_file(folder, plant):
    (folder / ".snakemake").mkdir()
    plant(sources.DIGESTS)
    with pytest.raises(KoctError, match="is a pipe or a device; put a file there, or remove it"):
        sources._kept_digests()


def held(path):
    """A lock that is not let go of."""
    file = path.open("w")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


@pytest.mark.parametrize("plant", [os.mkfifo, held], ids=["pipe", "another user's"])
def test_a_training_does_not_wait_for_what_others_put_in_place_of_its_lock(folder, monkeypatch, plant):
    training = pytest.importorskip("koct.networks.training", reason="torch is not installed")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    about = SimpleNamespace(uuid="GPU")
    monkeypatch.setattr(training.torch.cuda, "get_device_properties", lambda device: about)
    planted = [plant(folder / name) for name in ("koct-12345-GPU.lock", "koct-GPU.lock")]
    with training.alone(SimpleNamespace(type="cuda")):
        pass
    del planted
