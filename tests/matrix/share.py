"""A share of many runs that go the same way through the program."""


def share_of(all_runs, step, kinds_of):
    """Every so manyth of them, and the first that is of each kind: `kinds_of` lists those of a run."""
    seen, share = set(), []
    for number, run in enumerate(all_runs):
        kinds = set(kinds_of(run))
        if number % step == 0 or kinds - seen:
            share.append(run)
            seen |= kinds
    return share
