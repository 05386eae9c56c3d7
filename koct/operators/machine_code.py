"""How Numba compiles koct's loops, and where it keeps the machine code: a folder of its own for each version of them.

Numba itself looks at the size and the time of one source file, and not at options or at what another file defines.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from koct.errors import KoctError

try:
    import numba
    from numba.core.event import Listener, register
except ImportError:
    raise KoctError("projecting on the CPU needs numba: pip install numba") from None

DIGEST = 16  # bytes

# Numba reads its settings from the environment, again whenever it compiles.
os.environ.setdefault("NUMBA_SLP_VECTORIZE", "1")


def compiled(function: Callable[..., None]) -> Any:
    """Decorate a loop: Numba compiles it for one thread, or takes what it compiled before."""
    before = os.environ.pop("NUMBA_CACHE_DIR", None)
    try:
        if FOLDER is not None:
            os.environ["NUMBA_CACHE_DIR"] = FOLDER
        numba.config.reload_config()
        return numba.njit(cache=FOLDER is not None, fastmath=True, error_model="numpy")(function)
    finally:
        os.environ.pop("NUMBA_CACHE_DIR", None)
        os.environ.update({} if before is None else {"NUMBA_CACHE_DIR": before})
        numba.config.reload_config()


def version() -> str:
    """Return a hash of the code of all operators and problems."""
    folder = Path(__file__).parent
    sources = sorted([*folder.glob("*.py"), *folder.parent.glob("problems/*.py")])
    text = b"\0".join(path.name.encode() + b"\0" + path.read_bytes() for path in sources)
    return hashlib.blake2b(text, digest_size=8).hexdigest()


def _folder() -> str | None:
    """The folder of this version; None if there is no place to write to."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    bases = [os.path.join(os.path.dirname(__file__), "__pycache__"), os.path.join(cache, "koct")]
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    for base in [chosen] if chosen else bases:
        folder = os.path.join(base, f"numba-{version()}")
        with contextlib.suppress(OSError):
            os.makedirs(folder, exist_ok=True)
            if os.access(folder, os.W_OK | os.X_OK):
                remove_damaged(folder)
                return folder
    return None


def remove_damaged(folder: str) -> None:
    """Remove files of Numba's without the digest that `seal` appends, so that what they held is compiled again."""
    for path in _files(folder):
        with contextlib.suppress(FileNotFoundError):  # another process has removed it
            if not _is_sealed(path.read_bytes()):
                path.unlink()


def _files(folder: str) -> list[Path]:
    return [path for path in Path(folder).rglob("*.nb?") if path.suffix in (".nbi", ".nbc")]


def _is_sealed(data: bytes) -> bool:
    return data[-DIGEST:] == hashlib.blake2b(data[:-DIGEST], digest_size=DIGEST).digest()


class Seal(Listener):  # type: ignore[misc]
    """Appends digests to what Numba has written, as soon as it lets go of its lock; no reader looks behind a pickle."""

    def __init__(self, folder: str):
        self.folder, self.sealed = folder, set[tuple[Path, int]]()

    def on_start(self, event: Any) -> None:
        pass

    def on_end(self, event: Any) -> None:
        for path in _files(self.folder):
            with contextlib.suppress(OSError):  # another process has removed it, or the disk is full
                if (path, path.stat().st_mtime_ns) in self.sealed:
                    continue
                with path.open("r+b") as file:
                    if not _is_sealed(data := file.read()):
                        file.write(hashlib.blake2b(data, digest_size=DIGEST).digest())
                self.sealed.add((path, path.stat().st_mtime_ns))


FOLDER = _folder()
if FOLDER is not None:
    register("numba:compiler_lock", Seal(FOLDER))
