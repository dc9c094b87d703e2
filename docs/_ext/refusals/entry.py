"""One refusal, and those of one kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from refusals.at_hand import AtHand

Attempt = Callable[[AtHand], object]


@dataclass(frozen=True)
class Refusal:
    """What somebody does, and what comes of it.

    Attributes
    ----------
    attempt : callable
        Does it, with what is at hand.
    what : str
        The same in words.
    error : type
        The class of the error.
    says : str
        The words of its message that say what was found; "…" stands for some that are left out.
    why, instead : str
        Why it is refused, and what to do instead.
    needs : tuple of str
        A package that the attempt needs, and its lowest version, where it may not be installed.
    """

    attempt: Attempt
    what: str
    error: type[ValueError]
    says: str
    why: str
    instead: str
    needs: tuple[str, ...] = ()

    def row(self, ending: str) -> str:
        """The row of a Markdown table; a plain `ValueError`, and what has an ``ending`` in its place, is not named."""
        message = self.says.replace("<", "\\<")
        named = "" if ending or self.error is ValueError else f"`{self.error.__name__}`: "
        cells = (self.what, f"{named}{message}", self.why, self.instead)
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


@dataclass
class Group:
    """Refusals of one kind, in the order of the page."""

    title: str
    about: str
    ending: str = ""
    refusals: list[Refusal] = field(default_factory=list)

    def refuses(
        self, what: str, error: type[ValueError], says: str, *, why: str, instead: str, needs: tuple[str, ...] = ()
    ) -> Callable[[Attempt], Attempt]:
        """Enters the function below it into the table."""

        def entered(attempt: Attempt) -> Attempt:
            self.refusals.append(Refusal(attempt, what, error, says, why, instead, needs))
            return attempt

        return entered

    def section(self) -> str:
        """The section of the page."""
        head = f"## {self.title}\n\n{self.about}\n\n| what | error | why | instead |\n|---|---|---|---|"
        return "\n".join([head, *(refusal.row(self.ending) for refusal in self.refusals)]) + "\n"
