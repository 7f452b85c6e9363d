#!/usr/bin/env python3
"""Counts the instructions of small fits with valgrind's callgrind, one thread, AVX2 kernels.

``count.py`` writes ``counts.json``; ``count.py --check`` compares with it and fails if a count rose by more than
2 %. Counts depend on the compiler: with another version, or without valgrind, nothing is compared, and a message
says so.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
COUNTS = Path(__file__).parent / "counts.json"
SYSTEMS = ("kmeans", "exact", "dgmm")
MORE = 0.02


def build() -> str:
    """Build the program in release mode."""
    command = ["cargo", "bench", "--locked", "--no-run", "--bench", "instructions", "--message-format", "json"]
    lines = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    found = [entry["executable"] for entry in map(json.loads, lines) if entry.get("executable")]
    return str(found[-1])


def count(program: str, system: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", program, system]
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, env=os.environ | {"DGMM_ISA": "avx2"}
        )
    return int(re.findall(r"Collected : (\d+)", done.stderr)[-1])


def main() -> int:
    if shutil.which("valgrind") is None:
        print("NO VALGRIND: instructions are not counted", file=sys.stderr)
        return 0
    compiler = subprocess.run(["rustc", "--version"], check=True, capture_output=True, text=True).stdout.strip()
    known = json.loads(COUNTS.read_text(encoding="utf-8")) if COUNTS.exists() else {}
    check = "--check" in sys.argv
    if check and known.get("compiler") != compiler:
        print(f"INSTRUCTIONS ARE NOT COMPARED: counted with {known.get('compiler')}, not {compiler}", file=sys.stderr)
        return 0
    program = build()
    counts = {system: count(program, system) for system in SYSTEMS}
    if not check:
        COUNTS.write_text(json.dumps({"compiler": compiler, "counts": counts}, indent=1) + "\n", encoding="utf-8")
        return 0
    code = 0
    for system, now in counts.items():
        before = known["counts"][system]
        print(f"{system}: {now} instructions, {now / before - 1:+.2%}")
        if now > before * (1 + MORE):
            print(f"{system} takes more than {MORE:.0%} more instructions than counts.json has", file=sys.stderr)
            code = 1
    return code


if __name__ == "__main__":
    raise SystemExit(main())
