"""What the paper prints, as data, and its two networks."""

import json
from pathlib import Path

PAIR = ("ko", "fc")  # the operator-aware and the fully connected network
PRINTED = json.loads(Path(__file__).with_name("printed.json").read_text(encoding="utf-8"))
