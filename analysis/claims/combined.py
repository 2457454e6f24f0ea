"""Rules built from other rules: all of several, or one with a precondition.

`Given` prevents a broken arm from being judged as a collapse: nothing is decided about it unless it
fits what it was trained on.
"""

from dataclasses import dataclass, replace

from analysis.claims.evidence import Decision, Rule, join
from analysis.load import Results


@dataclass(frozen=True, slots=True)
class Every:
    """All of several rules."""

    rules: tuple[Rule, ...]

    @property
    def text(self) -> str:
        return "; and ".join(rule.text for rule in self.rules)

    def decide(self, results: Results) -> Decision:
        return join([rule.decide(results) for rule in self.rules])


@dataclass(frozen=True, slots=True)
class Given:
    """A rule that decides only where a precondition holds; undecided elsewhere."""

    given: Rule
    rule: Rule

    @property
    def text(self) -> str:
        return f"{self.rule.text}; decided only if {self.given.text}"

    def decide(self, results: Results) -> Decision:
        first = self.given.decide(results)
        if first.holds:
            return self.rule.decide(results)
        if first.few:
            other = self.rule.decide(results)  # of the same runs, and it knows its own test
            return replace(first, least_p=other.least_p) if other.few else first
        ours = first.ours if first.outcome is None else f"not judged: {first.ours}"
        return Decision(outcome=None, ours=ours, n=first.n)
