"""Reading a Dockerfile and its .dockerignore: as much of both languages as ours use."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
KNOWN = frozenset(
    ("ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "RUN", "USER", "WORKDIR")
)
_PAIR = re.compile(r'([\w.]+)=("[^"]*"|\S*)')
_ABSOLUTE = re.compile(r"(?<![\w.}/])/[\w.-][\w./-]*")


@dataclass(frozen=True)
class Instruction:
    """One instruction: its keyword in capitals, and the rest of its line with continuations joined by spaces."""

    keyword: str
    text: str

    @property
    def words(self) -> list[str]:
        """The rest of the line in words, as COPY, FROM and USER have it; or the strings of the JSON form."""
        return list(json.loads(self.text)) if self.text.startswith("[") else self.text.split()

    @property
    def pairs(self) -> dict[str, str]:
        """What ARG, ENV and LABEL set; a name without a value is left out."""
        return {name: value.strip('"') for name, value in _PAIR.findall(self.text)}


@dataclass(frozen=True)
class Stage:
    """What lies between two FROM: the base image, the stage's name (may be empty), its instructions."""

    base: str
    name: str
    instructions: tuple[Instruction, ...]

    def of(self, keyword: str) -> list[Instruction]:
        """The instructions of one kind, in order."""
        return [one for one in self.instructions if one.keyword == keyword]


@dataclass(frozen=True)
class Dockerfile:
    """The ARGs before the first FROM, and the stages."""

    arguments: dict[str, str]
    stages: tuple[Stage, ...]

    @property
    def final(self) -> Stage:
        """What becomes the image."""
        return self.stages[-1]

    def own_paths(self) -> set[str]:
        """The absolute paths that the Dockerfile makes: working folders, and where COPY writes to."""
        found = {one.text for stage in self.stages for one in stage.of("WORKDIR")}
        found |= {one.words[-1] for stage in self.stages for one in stage.of("COPY")}
        return {path for path in found if path.startswith("/")}


def absolute_paths(text: str) -> list[str]:
    """Every absolute path that a shell command names."""
    return _ABSOLUTE.findall(text)


def parse(text: str) -> Dockerfile:
    """Read a Dockerfile. ValueError for an instruction that nobody here understands."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    instructions = []
    for line in filter(str.strip, joined.splitlines()):
        keyword, _, rest = line.strip().partition(" ")
        if keyword.upper() not in KNOWN:
            raise ValueError(f"not understood: {line}")
        instructions.append(Instruction(keyword.upper(), rest.strip()))
    starts = [index for index, one in enumerate(instructions) if one.keyword == "FROM"]
    arguments = {name: value for one in instructions[: starts[0]] for name, value in one.pairs.items()}
    stages = []
    for start, end in zip(starts, [*starts[1:], len(instructions)], strict=True):
        base, *named = instructions[start].words
        stages.append(
            Stage(expand(base, arguments), named[1] if named else "", tuple(instructions[start + 1 : end])),
        )
    return Dockerfile(arguments, tuple(stages))


def expand(text: str, variables: dict[str, str]) -> str:
    """Put variables in place of `${NAME}`; an unknown one is empty."""
    return re.sub(r"\$\{(\w+)\}", lambda found: variables.get(found[1], ""), text)


class Ignored:
    """What a .dockerignore keeps from the build: the last pattern that meets a path or a folder above it decides."""

    def __init__(self, text: str) -> None:
        lines = [line.strip() for line in text.splitlines()]
        self._patterns = [
            (line.startswith("!"), re.compile(_regex(line.removeprefix("!").strip("/"))))
            for line in lines
            if line and not line.startswith("#")
        ]

    def __contains__(self, path: str) -> bool:
        parts = path.split("/")
        above = ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]
        kept_out = False
        for back_in, pattern in self._patterns:
            if any(pattern.fullmatch(one) for one in above):
                kept_out = not back_in
        return kept_out


def context(root: Path = ROOT) -> list[str]:
    """The files of the repository, as relative paths, that reach the build."""
    ignored = Ignored((root / ".dockerignore").read_text())
    top = [one for one in root.iterdir() if one.name not in ignored]
    files = [file for one in top for file in ([one] if one.is_file() else one.rglob("*")) if file.is_file()]
    return sorted(name for file in files if (name := file.relative_to(root).as_posix()) not in ignored)


def _regex(pattern: str) -> str:
    found = re.split(r"(\*\*/|\*\*|\*|\?|\[[^]]*\])", pattern)
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(meaning.get(part, part if part.startswith("[") else re.escape(part)) for part in found)
