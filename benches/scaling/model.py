"""A cost model of fits over shards, checked against measurements, and its predictions for 10^9 rows.

    python benches/scaling/model.py            measure, simulate, and write results/scaling.json and .md
    python benches/scaling/model.py --report   write only scaling.md, from the committed measurements

`measure` measures CPU seconds and bytes, `simulate` counts what would cross a network, `formulas` is the model, and
`tables` and `extrapolate` print it. Either command also updates the tables of docs/scaling.md, in the same order.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import warnings
from pathlib import Path
from typing import Any

from extrapolate import beyond, crossing, plan_of_target, targets, whole_fit
from formulas import fitted
from tables import bytes_of, checked, constants, distances, owners, simulated

RESULTS = Path(__file__).parent / "results"
GUIDE = Path(__file__).parents[2] / "docs" / "scaling.md"
TABLE = re.compile(r"(?:^\|.*\n)+", re.M)


def run(repeats: int, share: float) -> dict[str, Any]:
    """Measure and simulate; a `share` below 1 reduces all sizes, for a trial."""
    import dgmm
    import measure
    import simulate

    warnings.simplefilter("ignore", dgmm.DgmmWarning)
    found: dict[str, Any] = {"cpus": os.cpu_count(), "load": [os.getloadavg()[0]], "repeats": repeats}
    found["flops"] = measure.dense_flops(repeats)
    found["measured"] = []
    for size, far in [(size, False) for size in measure.SIZES] + [(size, True) for size in measure.FAR]:
        small = (max(int(size[0] * share), 2 * int(size[1] * share) + 400), max(int(size[1] * share), 200), size[2])
        row = measure.parts_of(small, repeats, far=far) | {"far": far}
        found["measured"].append(row)
        found["load"].append(os.getloadavg()[0])
        print({name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()}, flush=True)
    sizes = int(simulate.ROWS * share), int(simulate.CLUSTERS * max(share, 0.2)), simulate.COLUMNS
    found["simulated"] = [simulate.over_shards(*sizes, count) for count in simulate.SHARDS]
    sizes = int(simulate.OWNED_ROWS * share), int(simulate.OWNED_CLUSTERS * max(share, 0.1)), simulate.OWNED_COLUMNS
    found["owned"] = [
        row for regions in (False, True) for row in simulate.owned(*sizes, simulate.MACHINES, regions=regions)
    ]
    found["target"] = plan_of_target()
    return found


def page(found: dict[str, Any]) -> str:
    """The report of measurements and simulations."""
    c = fitted(found["measured"], found["flops"])
    load = found["load"]
    lines = [
        "# The cost model of fits over shards",
        "",
        f"Made by `benches/scaling/model.py` in float32 with {found['cpus']} CPUs that other programs were also using:",
        f"the load was {min(load):.1f} to {max(load):.1f}. Seconds are therefore CPU seconds of one thread, unless",
        f"called wall seconds. They are medians of {found['repeats']} runs, of one to three runs for starts, and of",
        "one run for the first searches of the last two sizes.",
    ]
    parts = {
        "Constants": constants(c),
        "Seconds, measured and predicted": checked(c, found["measured"]),
        "Distances per row": distances(c, found["measured"]),
        "Bytes, and the time to process them": bytes_of(c, found["measured"]),
        "Simulated: one fit over P shards": simulated(found["simulated"]),
        "Simulated: machines that own centers": owners(found["owned"]),
        "Extrapolated: an iteration with 10^9 x 256 and 10^6 clusters": targets(c, found["target"]),
        "Extrapolated: where the network takes as long as the arithmetic": crossing(c),
        "Extrapolated: the whole fit": whole_fit(c, found["target"], found["measured"]),
        "Extrapolated: centers owned by range": beyond(c, found["owned"]),
    }
    for title, table in parts.items():
        lines += ["", f"## {title}", "", *table]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args()
    path = given.output / "scaling.json"
    if not given.report:
        given.output.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(run(given.repeats, given.share), indent=1) + "\n", encoding="utf-8")
    found = json.loads(path.read_text(encoding="utf-8"))
    report = page(found)
    (given.output / "scaling.md").write_text(report, encoding="utf-8")
    if given.output == RESULTS:
        tables = iter(TABLE.findall(report))
        guide = TABLE.sub(lambda _: next(tables), GUIDE.read_text(encoding="utf-8"))
        GUIDE.write_text(guide, encoding="utf-8")


if __name__ == "__main__":
    main()
