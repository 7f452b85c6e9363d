"""Results on disk: one JSON file per experiment, rewritten after every trial, so that no finished trial is lost.

A trial is identified by its settings. A trial that is finished in any experiment is not run again.
"""

from __future__ import annotations

import json
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from shared import cpu_count, cpu_model, finite

Settings = dict[str, Any]
Record = dict[str, Any]
PACKAGES = ("dgmm", "numpy", "scipy", "scikit-learn", "matplotlib")


class StoreError(Exception):
    """A results folder that cannot be continued."""


def environment(threads: int) -> dict[str, Any]:
    """Where trials ran: machine and versions."""
    return {
        "cpu": cpu_model(),
        "cpus": cpu_count(),
        "threads": threads,
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": {name: metadata.version(name) for name in PACKAGES},
    }


def key(settings: Settings) -> str:
    return json.dumps(settings, sort_keys=True)


class Store:
    def __init__(self, folder: Path, quick: bool) -> None:
        self.folder, self.quick = folder, quick
        self.files: dict[str, Record] = {}
        self.known: dict[str, tuple[Record, dict[str, Any]]] = {}
        for path in sorted(folder.glob("*.json")):
            content = self._read(path)
            self.files[content["experiment"]] = content
            for trial in content["trials"]:
                self.known[key(trial["settings"])] = trial, content["environments"][trial["environment"]]

    def _read(self, path: Path) -> Record:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            quick = content["quick"]
            assert all({"settings", "result", "environment"} <= trial.keys() for trial in content["trials"])
            assert path.stem == content["experiment"] and isinstance(content["environments"], list)
        except (ValueError, KeyError, TypeError, AttributeError, AssertionError) as error:
            raise StoreError(
                f"{path.name} is no results file of this program: remove it, or choose another --output"
            ) from error
        if quick != self.quick:
            kind = "quick" if quick else "full"
            raise StoreError(f"{path.name} is of a {kind} run: choose another --output")
        return content

    def begin(self, experiment: str) -> None:
        """Prepare for the trials of an experiment. Data that was missing before may be available now."""
        content = self.files.setdefault(
            experiment, {"experiment": experiment, "quick": self.quick, "environments": [], "absent": {}, "trials": []}
        )
        content["absent"] = {}

    def has(self, experiment: str, settings: Settings) -> bool:
        """Whether the trial with these settings is finished; the result of another experiment is copied."""
        found = self.known.get(key(settings))
        if found is None:
            return False
        trial, where = found
        if all(trial["settings"] != other["settings"] for other in self.files[experiment]["trials"]):
            self.add(experiment, settings, trial["result"], where)
        return True

    def add(self, experiment: str, settings: Settings, result: dict[str, Any], where: dict[str, Any]) -> None:
        content = self.files[experiment]
        if where not in content["environments"]:
            content["environments"].append(where)
        trial = {"settings": settings, "environment": content["environments"].index(where), "result": finite(result)}
        content["trials"].append(trial)
        self.known.setdefault(key(settings), (trial, where))
        self.save(experiment)

    def set_absent(self, experiment: str, data: str, reason: str) -> None:
        self.files[experiment]["absent"][data] = reason
        self.save(experiment)

    def save(self, experiment: str) -> None:
        """Write one trial per line; the file is replaced as a whole."""
        content = self.files[experiment]
        head = {name: value for name, value in content.items() if name != "trials"}
        lines = ",\n".join(f"  {json.dumps(trial, allow_nan=False)}" for trial in content["trials"])
        text = json.dumps(head, indent=1)[:-2] + f',\n "trials": [\n{lines}\n ]\n}}\n'
        self.folder.mkdir(parents=True, exist_ok=True)
        partial = self.folder / f"{experiment}.json.part"
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, self.folder / f"{experiment}.json")
