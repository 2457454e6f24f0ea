"""Rules built from other rules: all of several, or one with a precondition.

`Given` prevents a broken arm from being judged as a collapse: nothing is decided about it unless it
fits what it was trained on. The rows of all parts are checked together.
"""

from dataclasses import dataclass, replace

from analysis.claims.evidence import Decision, Rule, check_rows, join, match_all
from analysis.load import Results


@dataclass(frozen=True, slots=True)
class Every:
    """All of several rules."""

    rules: tuple[Rule, ...]

    @property
    def text(self) -> str:
        return "; and ".join(rule.text for rule in self.rules)

    @property
    def patterns(self) -> tuple[str, ...]:
        return tuple(pattern for rule in self.rules for pattern in rule.patterns)

    def decide(self, results: Results) -> Decision:
        check_rows(results, match_all(results, self.patterns))
        return join([rule.decide(results) for rule in self.rules])


@dataclass(frozen=True, slots=True)
class Given:
    """A rule that decides only where a precondition holds; undecided elsewhere."""

    given: Rule
    rule: Rule

    @property
    def text(self) -> str:
        return f"{self.rule.text}; decided only if {self.given.text}"

    @property
    def patterns(self) -> tuple[str, ...]:
        return self.given.patterns + self.rule.patterns

    def decide(self, results: Results) -> Decision:
        check_rows(results, match_all(results, self.patterns))
        first = self.given.decide(results)
        if first.holds:
            return self.rule.decide(results)
        if first.few:
            other = self.rule.decide(results)  # of the same runs, and it knows its own test
            return replace(first, least_p=other.least_p) if other.few else first
        ours = first.ours if first.outcome is None else f"not judged: {first.ours}"
        return Decision(outcome=None, ours=ours, n=first.n)
