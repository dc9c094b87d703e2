"""Every error and warning rfsize raises of its own accord.

All errors are ``ValueError``s, so one ``except ValueError`` is enough; the subclasses let a caller tell
them apart.
"""


class NotAForestError(ValueError):
    """The model is not a forest of independently trained trees, so the theory of T*(α) does not hold."""


class InbagError(ValueError):
    """The in-bag rows could not be rebuilt and proven, so no out-of-bag vote can be trusted."""


class FewVotesError(ValueError):
    """Too few trees may vote on a training row for a forest to be sized by its out-of-bag votes."""


class ForestFileError(ValueError):
    """A file does not hold a compiled forest, or a damaged one."""


class NotConvergedWarning(UserWarning):
    """The forest has fewer trees than T*(α)."""


class SharedBagsWarning(UserWarning):
    """Several trees were trained on the same bag, so their votes are not independent draws."""


class SeedDependenceWarning(UserWarning):
    """The trees of a forest do not range over all that its parameters allow, but over what its seed does."""


class TableError(ValueError):
    """A stored stop table is damaged, or does not keep what it promises."""
