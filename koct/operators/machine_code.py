"""How Numba compiles koct's loops, and where it keeps the machine code: a folder of its own for each version of them.

Numba itself looks at the size and the time of one source file, and not at options or at what another file defines.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from koct.errors import KoctError

try:
    import numba
except ImportError:
    raise KoctError("projecting on the CPU needs numba: pip install numba") from None

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
    """Remove files of Numba's that are empty or cut off, so that what they held is compiled again."""
    for path in [*Path(folder).rglob("*.nbi"), *Path(folder).rglob("*.nbc")]:
        with contextlib.suppress(FileNotFoundError):  # another process has removed it
            if not _is_whole(path):
                path.unlink()


def _is_whole(path: Path) -> bool:
    """Whether a file is a pickle to its end; an index is two of them, and small."""
    data = path.read_bytes()
    if path.suffix == ".nbc":
        return data.endswith(pickle.STOP)
    try:
        version = pickle.loads(data)
        pickle.loads(data[len(pickle.dumps(version, protocol=-1)) :])
    except Exception:  # whatever a damaged file makes of its reader
        return False
    return True


FOLDER = _folder()
