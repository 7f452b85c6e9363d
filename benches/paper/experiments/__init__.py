"""The experiments, in the order of the report.

Each is a module with `TITLE`, `plan(quick)` (its trials), `draw(records, folder)` (its figures, by name) and
`report(records, absent)` (its part of RESULTS.md, as lines of Markdown).
"""

from experiments import artificial, bound, complexity, hyperparameters, large, similarity, stability, table, tradeoff

EXPERIMENTS = {
    module.__name__.rpartition(".")[2]: module
    for module in (artificial, bound, table, tradeoff, complexity, stability, hyperparameters, large, similarity)
}
