"""Figures in the size of a screen, for a report that has to stay small."""

import io

from koct.base.files import atomic_write
from koct.base.stamps import Stamp, again, made_from
from koct.errors import KoctError

WIDTH = 1400  # pixels at most
COLOURS = 64  # of a drawing; its lines and letters keep their edges, as they would not in a JPEG
QUALITY = 65  # of a JPEG, for what is more picture than drawing


def reduce(paths, out, spec=None):
    """Write every picture of `paths` to the file at the same place of `out`, a .png or a .jpg."""
    if len(paths) != len(out):
        raise KoctError(f"--out has {len(out)} files for {len(paths)} pictures; give as many")
    kinds = ["JPEG" if str(preview).endswith(".jpg") else "PNG" for preview in out]
    pictures = [reduced(path, kind) for path, kind in zip(paths, kinds, strict=True)]
    stamp = Stamp(spec or {}, made_from(*paths))  # of the one job that makes them all
    for preview, content in zip(out, pictures, strict=True):
        with atomic_write(preview, stamp) as temporary, open(temporary, "wb") as file:
            file.write(content)


def reduced(path, kind):
    """The bytes of a smaller picture."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as picture:
            picture = picture.convert("RGB")
    except (OSError, UnidentifiedImageError):
        raise KoctError(f"{path} is not a picture; {again(path)}") from None
    if picture.width > WIDTH:
        picture = picture.resize((WIDTH, round(picture.height * WIDTH / picture.width)), Image.Resampling.LANCZOS)
    if kind == "PNG":
        picture = picture.quantize(COLOURS, dither=Image.Dither.NONE)
    buffer = io.BytesIO()
    picture.save(buffer, kind, optimize=True, **({"quality": QUALITY} if kind == "JPEG" else {}))
    return buffer.getvalue()
