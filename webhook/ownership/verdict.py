"""What the rules say: findings with evidence, and the verdict that they add up to."""

from dataclasses import dataclass
from typing import Literal

from webhook.ownership.settings import Mode

Effect = Literal["deny", "warn"]

MAX_SHOWN = 5
"""How many observations a message shows; the audit record carries them all."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One fact that a phase or a finding rests on: which object, which field, which value."""

    object: str
    field: str
    value: str

    def __str__(self) -> str:
        return f"{self.object} {self.field} {self.value}".rstrip() if self.field else f"{self.object} {self.value}"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one rule has to say about one request.

    `effect` is what the rule wants; the rule's mode may soften it. `what` says what is refused (or warned of),
    `because` the evidence, `next_step` one command or step, each as a sentence without its full stop. `causes` are
    field paths of the request's object. `code` is the HTTP-like status of a denial: 403, or 422 for a malformed value.
    """

    rule: str
    effect: Effect
    what: str
    because: tuple[Observation, ...] = ()
    next_step: str = ""
    causes: tuple[str, ...] = ()
    code: int = 403

    def message(self) -> str:
        """The finding as a person reads it: `[rule] what. Because: evidence. Next: step.` (DESIGN.md section 5)."""
        parts = [f"[{self.rule}] {self.what}."]
        if self.because:
            shown = [str(observation) for observation in self.because[:MAX_SHOWN]]
            if len(self.because) > MAX_SHOWN:
                shown.append(f"and {len(self.because) - MAX_SHOWN} more")
            parts.append("Because: " + "; ".join(shown) + ".")
        if self.next_step:
            parts.append(f"Next: {self.next_step}.")
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Judged:
    """A finding together with the mode of its rule, which decides what becomes of it.

    `lifted` tells that break-glass has turned a denial into a warning.
    """

    finding: Finding
    mode: Mode
    lifted: bool = False


Decision = Literal["denied", "warned", "audited", "allowed"]
"""What became of a request: denied, allowed with a warning, allowed but noticed (mode `audit`), allowed."""

Subject = Literal["none", "pod", "template", "owner", "node", "other"]
"""What kind of request it was: `owner` is a write to what decides ownership, and needs live facts."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to one request.

    `denials` (enforced), `warnings` (to be shown to the user; softened denials included) and `audited` (mode `audit`:
    recorded only) are in the order of the rules' table. `phase` is the phase before the request, of the scope
    concerned; `evidence` is what it rests on. `owner_change` tells that an allowed request is one to be recorded
    (DESIGN.md section 9), `break_glass` which rule was lifted and why (`rule: reason`).
    """

    subject: Subject
    denials: tuple[Judged, ...] = ()
    warnings: tuple[Judged, ...] = ()
    audited: tuple[Judged, ...] = ()
    phase: str = ""
    evidence: tuple[Observation, ...] = ()
    owner_change: bool = False
    break_glass: str = ""

    @property
    def allowed(self) -> bool:
        """Whether the request passes."""
        return not self.denials

    @property
    def decision(self) -> Decision:
        """What became of the request, in one word."""
        if self.denials:
            return "denied"
        if self.warnings:
            return "warned"
        return "audited" if self.audited else "allowed"

    @property
    def code(self) -> int:
        """The status code of a denial: 422 when all of it is about malformed values, else 403."""
        return 422 if self.denials and all(judged.finding.code == 422 for judged in self.denials) else 403

    @property
    def message(self) -> str:
        """Everything that a denied user is told: one paragraph a denial, the first rule of the table first."""
        return "\n".join(judged.finding.message() for judged in self.denials)

    @property
    def rule(self) -> str:
        """The rule that decided: the first denial's, else the first warning's, else the first audited one's, else
        empty."""
        first = next(iter((*self.denials, *self.warnings, *self.audited)), None)
        return first.finding.rule if first else ""
