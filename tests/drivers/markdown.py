"""The documents, as tests read them: headings, links, tables, blocks of code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<code>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#{1,6}) (.+)$", re.MULTILINE)
_LINK = re.compile(r"(?<!\\)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")
_NOTE = re.compile(r"<!-- ([^\n]*?) -->\s*\Z")


@dataclass(frozen=True)
class Block:
    """A block of code.

    Attributes:
        language: what stands behind the fence.
        code: its lines, without the indent of the fence.
        note: the comment right before it, which readers do not see; empty without one.
        line: where it begins.
    """

    language: str
    code: str
    note: str
    line: int


@dataclass(frozen=True)
class Document:
    """One Markdown file."""

    path: Path

    @property
    def text(self) -> str:
        """The file."""
        return self.path.read_text(encoding="utf-8")

    @property
    def name(self) -> str:
        """Its path from the root of the project."""
        return str(self.path.relative_to(ROOT))

    @property
    def prose(self) -> str:
        """The text without blocks of code."""
        return _FENCE.sub("", self.text)

    def blocks(self) -> list[Block]:
        """Return the blocks of code, in order."""
        text = self.text
        return [
            Block(
                language=match["language"],
                code=re.sub(f"^{match['indent']}", "", match["code"], flags=re.MULTILINE),
                note=note[1] if (note := _NOTE.search(text[: match.start()])) else "",
                line=text.count("\n", 0, match.start()) + 1,
            )
            for match in _FENCE.finditer(text)
        ]

    def anchors(self) -> set[str]:
        """Return what a link to a heading of it may end in, as GitHub makes them."""
        found: dict[str, int] = {}
        anchors = set()
        for _, heading in _HEADING.findall(self.prose):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
            slug = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
            count = found.get(slug, 0)
            found[slug] = count + 1
            anchors.add(f"{slug}-{count}" if count else slug)
        return anchors

    def links(self) -> Iterator[str]:
        """Yield the target of every link and picture."""
        without_code = re.sub(r"`[^`\n]*`", "", self.prose)
        yield from _LINK.findall(without_code)

    def section(self, heading: str) -> str:
        """Return what stands under a heading, up to the next one of its level or above."""
        lines = self.text.splitlines(keepends=True)
        start = lines.index(f"{heading}\n")
        level = len(heading) - len(heading.lstrip("#"))
        end = start + 1
        fenced = False
        while end < len(lines):
            fenced ^= lines[end].lstrip().startswith("```")
            if not fenced and re.match(rf"#{{1,{level}}} ", lines[end]):
                break
            end += 1
        return "".join(lines[start + 1 : end])

    def headings(self, level: int) -> list[str]:
        """Return the headings of one level, as they are written."""
        return [heading for marks, heading in _HEADING.findall(self.prose) if len(marks) == level]


def documents() -> list[Document]:
    """Return every Markdown file of the project."""
    folders = (ROOT, ROOT / "docs", ROOT / "docs" / "decisions")
    return [Document(path) for folder in folders for path in sorted(folder.glob("*.md"))]


def rows(markdown: str) -> list[list[str]]:
    """Return the rows of the tables in a text, as their cells; a bar in a cell is written `\\|`."""
    found = []
    for line in markdown.splitlines():
        if line.startswith("|") and not re.fullmatch(r"[|\-: ]+", line):
            cells = re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|"))
            found.append([cell.strip().replace("\\|", "|") for cell in cells])
    return found


def codes(text: str) -> list[str]:
    """Return what stands in backticks."""
    return re.findall(r"`([^`\n]+)`", text)
