"""Counting: rows go down all trees once, and what the trees say is added up.

``tree_outputs(model, X, oob=True)`` from the call to C++:

1. `api.tree_outputs` checks the options.
2. `task.Task.checked` reads the model, opens the rows, checks the sizes of the bags, and forms groups of rows.
3. `collect.collect_outputs` joins what is counted with ``y``, weights and warnings to `TreeOutputs`.
4. `count.count` adds up what the trees say, batch by batch, in one process or where the rows lie (`task.in_parts`).
5. `task.Pass.batches` yields for each batch the leaves, draws the bags again, and tells the trees that saw each row.
6. `walking.leaves.leaf_lookup` finds the leaves, by compiled loops, or of few rows by the framework.
7. `task.BagCheck` adds up bags leaf by leaf (``_core.add_at_leaves``); at the end they must be what the model stored.
8. ``_core.count_votes``, ``_core.add_up_scores`` and ``_core.add_by_part``, called by `count`, add up votes, scores
   and sums by part of the forest.
"""
