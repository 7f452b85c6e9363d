#!/usr/bin/env python3
"""Writes the README's section on speed: the headline table, the time to reach each peer's error, and the goals.

    headline.py RESULTS [README.md]

RESULTS is the folder with pareto.json and scaling.json. Prints the section or, given a README, writes it there between
the lines `<!-- speed -->` and `<!-- /speed -->`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from common import number, table
from contenders import CONTENDERS
from goals import Median, Panel, panels, summary, verdicts

BEGIN, END = "<!-- speed -->", "<!-- /speed -->"
TITLES = {
    "glove50": "GloVe",
    "kdd_bio": "KDD bio",
    "word_pieces": "word pieces",
    "song": "SONG (sample)",
    "sift": "SIFT-like",
    "speech": "speech",
    "cifar10": "CIFAR-10",
    "covtype": "covtype",
    "fashion_mnist": "fashion MNIST",
    "flights": "flights",
    "zh_words": "Chinese words",
}
SHOWN = {
    "dgmm-quick": '`tol="quick"`',
    "dgmm": "`dgmm.DGMM(M)`",
    "dgmm-1e-5-refine": "converged, refined",
    "superkmeans": "SuperKMeans",
    "faiss-10": "faiss, 10 iterations",
}


def title(panel: Panel) -> str:
    return TITLES.get(panel.dataset, panel.dataset)


def reach_cell(panel: Panel, peer: Median) -> str:
    """Our seconds, the peer's seconds and their ratio; bold if the peer is ahead."""
    ours = panel.quickest_to(peer.error)
    if ours is None:
        best = min(panel.curve(), key=lambda m: m.error)
        return f"**not reached**: {100 * (best.error / peer.error - 1):+.1f} % after {number(best.seconds)} s"
    ratio = peer.seconds / ours.seconds
    words = f"{number(ours.seconds)} of {number(peer.seconds)} s: {number(ratio, 2)} x"
    return words if ratio > 1 else f"**{words}**"


def reach_lines(every: list[Panel]) -> list[str]:
    """Time to reach the error of each peer, one row per problem."""
    shown = [panel for panel in every if panel.curve() and panel.peers()]
    found = {peer.name for panel in shown for peer in panel.peers()}
    names = [name for name in CONTENDERS if name in found]
    often = [name for name in names if sum(name in panel.runs for panel in shown) > 3]
    rows = []
    for panel in shown:
        peers = {peer.name: peer for peer in panel.peers()}
        cells = [reach_cell(panel, peers[name]) if name in peers else "-" for name in often]
        rows.append([title(panel), f"{panel.clusters:,}", *cells])
    lines = [table(["data", "M", *often], rows), ""]
    rare = [name for name in names if name not in often]
    if rare:
        wide = [panel for panel in shown if any(name in panel.runs for name in rare)]
        rows = []
        for name in rare:
            peers = [panel.median(name) for panel in wide]
            cells = [reach_cell(p, m) if m.measured else "-" for p, m in zip(wide, peers, strict=True)]
            rows.append([name, *cells])
        lines += [table(["peer", *(f"{title(p)}, {p.clusters:,}" for p in wide)], rows), ""]
    return lines


def ahead_lines(every: list[Panel]) -> list[str]:
    """Every peer that none of our settings matches in both time and error."""
    found = []
    for panel in every:
        for peer in panel.peers():
            ours = panel.quickest_to(peer.error)
            if panel.curve() and (ours is None or ours.seconds >= peer.seconds):
                problem = f"{title(panel)}, M = {panel.clusters:,}"
                found.append(f"- {problem}: {peer.name} ({number(peer.seconds)} s). {reach_cell(panel, peer)}")
    if not found:
        return ["No peer is ahead: for each, one of our settings reaches at most its error in less time."]
    return ["Where a peer is ahead of all our settings:", "", *found]


def seconds_lines(every: list[Panel]) -> list[str]:
    """Seconds and error of the settings that most readers compare."""
    rows = []
    for panel in every:
        facts = panel.facts
        cells = []
        for name in SHOWN:
            median = panel.median(name)
            cells.append(f"{number(median.seconds)} s, {median.error:.3e}" if median.measured else "-")
        cells = [cell.replace("e+0", "e").replace("e+", "e") for cell in cells]
        rows.append([f"{title(panel)}, {facts['rows']:,} x {facts['columns']}", f"{panel.clusters:,}", *cells])
    return [table(["data", "M", *SHOWN.values()], rows), ""]


def section(results: dict[str, Any], scaling: dict[str, Any]) -> str:
    """The whole section; `scaling` are the results of `scaling.py`."""
    every = panels(results)
    machine, settings = results["machine"], results["settings"]
    lines = [
        BEGIN,
        f"{settings['threads']} threads on {machine['cpus']} CPUs ({machine['cpu']}). Contenders take turns; figures",
        "are medians of three runs, or one run where that takes minutes. The error is the exact sum of squared",
        "distances to the nearest center.",
        "",
        *seconds_lines(every),
        "Seconds of our fastest setting whose error is no higher than the peer's, of the peer's seconds:",
        "",
        *reach_lines(every),
        *ahead_lines(every),
        "",
        "The project's goals, and on how many problems each is met:",
        "",
        table(["goal", "met"], summary(verdicts(results))),
        "",
        "From `scaling.py`:",
        "",
        *(f"- {line.partition(': ')[2]}" for line in scaling["goals"]),
        END,
    ]
    return "\n".join(lines)


def inserted(text: str, block: str) -> str:
    """The README with the new block instead of the old one."""
    head, found, rest = text.partition(BEGIN)
    _, ended, tail = rest.partition(END)
    if not (found and ended):
        raise SystemExit(f"headline.py: the file has no lines {BEGIN} and {END}")
    return head + block + tail


def main() -> None:
    if not 2 <= len(sys.argv) <= 3:
        sys.exit("usage: headline.py RESULTS [README.md]")
    folder = Path(sys.argv[1])
    block = section(*(json.loads((folder / f"{name}.json").read_text()) for name in ("pareto", "scaling")))
    if len(sys.argv) == 3:
        readme = Path(sys.argv[2])
        readme.write_text(inserted(readme.read_text(), block))
    else:
        print(block)


if __name__ == "__main__":
    main()
