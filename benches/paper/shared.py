"""Helpers from `benches/peers`: arguments, the facts of the machine, Markdown, patches."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "peers"))

from common import OneLineParser, cpu_count, cpu_model, finite, number, positive_int, say, stop_cleanly, table
from data import image_patches

__all__ = [
    "OneLineParser",
    "cpu_count",
    "cpu_model",
    "finite",
    "image_patches",
    "number",
    "positive_int",
    "say",
    "stop_cleanly",
    "table",
]
