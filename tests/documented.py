"""The pages of the documentation: their links, anchors and code blocks, for its tests."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.DOTALL | re.MULTILINE)


def pages() -> list[Path]:
    """Every page for people: the README, its companions, and the documentation."""
    top = [REPOSITORY / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md")]
    return [*top, *sorted((REPOSITORY / "docs").rglob("*.md"))]


def name_of(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


@dataclass(frozen=True)
class Block:
    """A fenced block: its page, first line, language and text."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@cache
def blocks() -> tuple[Block, ...]:
    found = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for match in FENCE.finditer(text):
            line = text.count("\n", 0, match.start()) + 2
            body = re.sub(rf"^{match[1]}", "", match[3], flags=re.MULTILINE)
            found.append(Block(name_of(page), line, match[2], body))
    return tuple(found)


@dataclass(frozen=True)
class Command:
    """A command of a console block, without its comment."""

    page: str
    line: int
    arguments: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {shlex.join(self.arguments)}"

    def starts(self, text: str) -> bool:
        return shlex.join(self.arguments).startswith(text)


def commands() -> Iterator[Command]:
    """Every command of every console block."""
    for block in blocks():
        first = block.text.lstrip()
        if block.language not in ("sh", "console") and not (
            block.language == "" and first.startswith(("privaudit ", "python benchmarks/"))
        ):
            continue
        text = re.sub(r"\\\n", lambda m: "  ", block.text)
        for number, line in enumerate(text.splitlines()):
            written = line.removeprefix("$ ").strip().removesuffix("&").strip()
            arguments = shlex.split(written, comments=True)
            if arguments:
                yield Command(block.page, block.line + number, tuple(arguments))


#: A block of one command, and the block of what it prints.
SHOWN = re.compile(r"```sh\n([^\n]+)\n```\n\n```text\n(.*?)\n```", re.DOTALL)


@cache
def outputs() -> dict[tuple[str, int], str]:
    """What pages show that a command prints, by the page and the line of the command."""
    found = {}
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for match in SHOWN.finditer(text):
            found[name_of(page), text.count("\n", 0, match.start(1)) + 1] = match[2]
    return found


def words(output: str) -> Counter[str]:
    """Count the words of an output: no numbers, no lines of tables, no verdicts, no wrapping."""
    tokens = re.split(r"[\s\u2500-\u257f]+", output)
    verdicts = {"breached", "inconclusive", "not", "shown"}
    return Counter(t for t in tokens if t[:1].isalpha() and t not in verdicts)


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page's headings, as repository viewers and the site make them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    found: dict[str, int] = {}
    result = set(re.findall(r'<a (?:id|name)="([^"]+)"', text))
    for heading in re.findall(r"^#+ (.+?)\s*#*$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        slug = re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-")
        count = found[slug] = found.get(slug, -1) + 1
        result.add(f"{slug}-{count}" if count else slug)
    return frozenset(result)


def links(page: Path) -> Iterator[tuple[str, str]]:
    """The links of a page, to others of the repository, as (path, anchor)."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    text = re.sub(r"`[^`\n]*`", "", text)
    for target in re.findall(r"!?\[[^\]]*\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            yield path, anchor


#: What samples may take for given: data, never names that a reader would have to import.
GIVEN = (
    "transcript", "truth", "knowledge", "rng", "data", "run", "view", "users", "u", "v",
    "sequences", "gradient", "compared", "protocol_events",
)  # fmt: skip


def given(block: Block) -> dict[str, Any]:
    """Return what a sample starts from: a small run of the protocol that it is about."""
    import numpy as np

    rng = np.random.default_rng(0)
    values: dict[str, Any] = {
        "rng": rng,
        "u": rng.standard_normal(200),
        "v": rng.standard_normal(200),
        "sequences": np.array([rng.permutation(50)[:10] for _ in range(4)]),
        "gradient": np.zeros((2, 3), dtype=np.float32),
    }
    for page, part, make in _RUNS:
        if block.page == page and part in block.text:
            values |= make()
            break
    return values


@cache
def _simulated(protocol: str, federation: str = "", **parameters: Any) -> dict[str, Any]:
    import privaudit as pa
    from privaudit import plugins
    from privaudit.campaigns.runs import knowledge_of
    from privaudit.transcript import Capability

    held = {"partition": "single-record"} if federation else {"records_per_user": 12}
    run = pa.simulate(
        protocol,
        parameters={"model": "mlp", "local_epochs": 1, **parameters},
        federation={"users": 6, "auxiliary_records": 60, **held},
    )
    everything = pa.Coalition.of("server", capabilities=Capability)
    known = {"users": run.transcript.ids("user")}
    if "server" in {party.id for party in run.transcript.parties}:
        known["view"] = run.transcript.view(everything)
    return known | {
        "run": run,
        "transcript": run.transcript,
        "truth": run.truth,
        "knowledge": knowledge_of(run),
        "protocol_events": plugins.load("protocol", protocol)().events(run.transcript),
    }


def _pa_cfl() -> dict[str, Any]:
    return _simulated("pa-cfl", "single", rounds=1, update="gradient", similarity="jaccard")


def _pa_cfl_twice() -> dict[str, Any]:
    return _simulated("pa-cfl", rounds=2, similarity="jaccard")


def _disue() -> dict[str, Any]:
    run = _simulated(
        "disue", rounds=6, similarity="relay", similarity_on="delta", generator_width=2,
        noise_dimension=8, distillation_iterations=2, distillation_batch_size=10,
    )  # fmt: skip
    truth = run["truth"]
    compared = {
        user: truth.get(f"{user}/round-1", "vector")
        for user in run["users"]
        if "vector" in truth.targets.get(f"{user}/round-1", {})
    }
    return run | {"compared": compared}


def _fedavg() -> dict[str, Any]:
    return _simulated("fedavg", rounds=5)


def _gradients() -> dict[str, Any]:
    return _simulated("fedavg", "single", rounds=1, update="gradient")


def _indices() -> dict[str, Any]:
    from index_runs import digits_run

    made = digits_run()
    return {"data": made.data, "transcript": made.transcript, "truth": made.truth}


#: Of the samples on a page that hold a text, the run that they start from.
_RUNS: tuple[tuple[str, str, Any], ...] = (
    ("docs/accounting.md", "protocol_events", _pa_cfl),
    ("docs/attacks/indices.md", "", _indices),
    ("docs/attacks/inference/membership.md", "", _fedavg),
    ("docs/attacks/inference/property.md", "", _fedavg),
    ("docs/attacks/inference/similarity-probes.md", "", _disue),
    ("docs/attacks/inversion.md", "", _gradients),
    ("docs/attacks/inversion/blind-coordinates.md", "", _pa_cfl),
    ("docs/attacks/inversion/rank-profile.md", "", _pa_cfl),
    ("docs/attacks/reidentification/gradient-linking.md", "", _fedavg),
    ("docs/attacks/reidentification/permutation-linking.md", "", _pa_cfl_twice),
    ("docs/attacks/reidentification/similarity-linking.md", "", _disue),
)
