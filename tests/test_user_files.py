"""What jobs know of the files that a problem reads: any other content is noticed, whatever the size and the times."""

import os
import shutil

import pytest

from koct.errors import KoctError
from koct.workflow import sources as user_files


class Reads:
    """A problem that reads these files."""

    def __init__(self, *paths):
        self.paths = paths

    def files(self):
        return self.paths


def digests(*paths):
    return user_files.checksums(Reads(*paths)).get("files")


@pytest.fixture
def large(folder, monkeypatch):
    """A file whose digest is kept, and another of the same size and times."""
    monkeypatch.setattr(user_files, "LARGE", 1000)
    for name, letter in (("x.npy", b"a"), ("other.npy", b"b")):
        (folder / name).write_bytes(letter * 5000)
        os.utime(folder / name, (10**9, 10**9))
    return "x.npy"


@pytest.mark.parametrize("replace", [os.replace, shutil.copy2], ids=["mv", "cp -p"])
def test_another_large_file_of_equal_size_and_age_is_noticed(large, replace):
    before = digests(large)
    replace("other.npy", large)
    assert os.stat(large).st_mtime == 10**9
    assert digests(large) != before


def test_a_large_file_is_read_once_and_again_when_it_changes(large, monkeypatch):
    before = digests(large, "other.npy")
    read = []
    digest = user_files.digest_of_file
    monkeypatch.setattr(user_files, "digest_of_file", lambda path: read.append(path) or digest(path))
    assert digests(large, "other.npy") == before
    assert read == []
    os.utime(large)
    assert digests(large, "other.npy") == before
    assert read == [large]
    with open(user_files.DIGESTS, "w") as file:
        file.write('{"x.npy": 3}')  # damaged
    assert digests(large) == {large: before[large]}


def test_of_a_folder_every_file_counts(folder):
    os.makedirs("data/deep")
    (folder / "data/deep/a").write_text("1")
    before = digests("data")
    (folder / "data/deep/a").write_text("2")
    assert digests("data") != before


def test_a_pipe_is_refused(folder):
    os.mkfifo("pipe")
    with pytest.raises(KoctError, match="pipe is a pipe or a device; put a file there"):
        digests("pipe")
