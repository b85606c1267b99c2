"""The graph of uses: the entries in the paper's reading order, and which of them each one uses; as SVG or JSON."""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from graphlib import TopologicalSorter
from html import escape
from itertools import groupby
from typing import Any

from ...theory.derivations.registry import rests_on
from ...theory.equations import equations
from ...theory.typesetting.sentences import sentence_text
from ..figures.style import BLUE, GREEN, LIGHT, ORANGE, PURPLE, SKY, VERMILION

# From the strongest to the weakest: an entry has the status of its weakest line.
COLOURS = {
    "exact": SKY, "numeric": GREEN, "sampled": ORANGE, "assumed": PURPLE, "fails": VERMILION, "definition": "#F0E442",
    "not judged": "#FFFFFF",
}  # fmt: skip
OUTLINES = {"limit": "7 3", "approximation": "2 2", "ansatz": "9 2 2 2"}  # the dashes round an entry of this kind
USES = {"line": "a line uses it", "reason": "a reason cites it", "letter": "a letter comes from it"}
STYLE = f"""#uses text {{font: 12px system-ui, sans-serif; fill: {LIGHT.ink}}} #uses g text {{text-anchor: middle}}
#uses text.b {{font-weight: 600}} #uses text.t {{font-size: 11px}} #uses rect {{stroke: {LIGHT.ink}}}
.use {{fill: none; stroke: #6B727B}} .use:not(.line) {{stroke-opacity: .5}}
.reason {{stroke-dasharray: 6 3}} .letter {{stroke-dasharray: 1 4}}"""
TIP = f'<path d="M0,0 8,4 0,8z" fill="{BLUE}"/>'
MARGIN, GAP, ROOM = 16, 8, 1400  # pixels; ROOM is the width of the picture


def statuses(evidence: Mapping[str, Any]) -> dict[str, str]:
    """{number: status} from the document that ``iclflow check --json`` writes: that of the weakest line."""
    try:
        found = {
            entry["equation"]: (entry["proof"]["status"], [line["status"] for line in entry["lines"] if line["relation"] != ":="])
            for entry in evidence["entries"]
        }
    except (KeyError, TypeError):
        raise ValueError("evidence: must be what iclflow check --json writes: entries with an equation, a proof and lines") from None
    order = list(COLOURS)
    return {
        number: "fails" if proof == "fails" else max((line for line in lines if line in order), key=order.index, default="not judged")
        for number, (proof, lines) in found.items()
    }


def graph(judged: Mapping[str, str] | None = None, numbers: Iterable[str] | None = None) -> dict[str, list[dict[str, str]]]:
    """``nodes`` {number, title, kind, section, status} in reading order, and ``edges`` {from, to, by}: an entry and one that it uses.

    ``judged``: {number: status}. ``numbers``: only these and what they rest on. ``by``: whether a "line" uses the entry, a "reason"
    cites it, or a "letter" comes from it.
    """
    entries = {entry.number: entry for entry in equations()}
    uses = cache(lambda number: entries[number].uses)
    chosen = entries.keys() if numbers is None else {one for number in numbers if number in entries for one in rests_on(number, uses)}
    places = {number: _place(entry.section, entry.number, entries) for number, entry in entries.items()}
    nodes = [
        {
            "number": number,
            "title": sentence_text(entries[number].title),
            "kind": entries[number].kind,
            "section": places[number],
            "status": "definition" if entries[number].derivation is None else (judged or {}).get(number, "not judged"),
        }
        for number in sorted(chosen, key=lambda number: (_reading(places[number]), list(entries).index(number)))
    ]
    edges = [{"from": one, "to": used, "by": by} for one in (node["number"] for node in nodes) for used, by in uses(one).items()]
    return {"nodes": nodes, "edges": edges}


def _place(section: str, number: str, entries: Mapping[str, Any]) -> str:
    """The section of an entry; of one that stands beside another, that one's."""
    if named := re.search(r"(?:Section|Appendix) [\w.]+", section):
        return named[0]
    for beside in re.findall(r"\(([\w.-]+)\)", section):
        if beside in entries and beside != number:
            return _place(entries[beside].section, beside, entries)
    family = re.match(r"[A-Z]+\d*", number)
    return f"Beyond the paper, {family[0] if family else number}"


def _reading(section: str) -> tuple:
    """Sections before appendices before what is beyond the paper, in order of their numbers."""
    words = [int(word) if word.isdigit() else word for word in re.findall(r"\d+|[A-Z](?=[\d. ]|$)", section)]
    return ("Section", "Appendix", "Beyond").index(section.split()[0]), [str(word).rjust(3) for word in words]


def svg(drawn: Mapping[str, list[dict[str, str]]], *, links: Callable[[str], str] | None = None, levels: bool = False) -> str:
    """The graph as a picture. With ``levels`` each entry stands below what it uses, with its title, else in the row of its section.

    ``links``: the address of an entry by its number, empty for none. A pointer on an entry brings out all that it rests on.
    """
    nodes = {node["number"]: node for node in drawn["nodes"]}
    edges = [edge for edge in drawn["edges"] if levels or edge["by"] != "letter"]
    used = {number: [edge["to"] for edge in edges if edge["from"] == number] for number in nodes}
    label, size, space = (0, (224, 40), 44) if levels else (160, (112, 22), 24)
    columns = (ROOM - 2 * MARGIN - label) // (size[0] + GAP)
    at, pieces, y = {}, [_legend()], 70
    for row, numbers in _levels(nodes, used) if levels else _sections(nodes.values()):
        pieces.append(f'<text class="b" x="{MARGIN}" y="{y + 15}">{escape(row)}</text>')
        for start in range(0, len(numbers), columns):
            line = numbers[start : start + columns]
            left = (ROOM - len(line) * (size[0] + GAP)) / 2 if levels else label + MARGIN
            at |= {number: (left + i * (size[0] + GAP), y) for i, number in enumerate(line)}
            y += size[1] + space
    index, below = {number: i for i, number in enumerate(nodes)}, {number: rests_on(number, used.__getitem__) for number in nodes}
    for edge in edges:
        resting = " ".join(f"r{index[number]}" for number in nodes if edge["from"] in below[number])
        curve = _curve(at[edge["from"]], at[edge["to"]], *size)
        pieces.append(f'<path class="use {edge["by"]} {resting}" marker-end="url(#use)" d="{curve}"/>')
    for number, node in nodes.items():
        left, top = at[number]
        box = f'<g id="n{index[number]}">{_box(node, left, top, *size, titled=levels)}</g>'
        pieces.append(f'<a href="{escape(address)}">{box}</a>' if links and (address := links(number)) else box)
    hover = "".join(f"#uses:has(#n{i}:hover) .r{i} {{stroke: {BLUE}; stroke-opacity: 1; stroke-width: 2.5}}\n" for i in index.values())
    tip = f'<marker id="use" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">{TIP}</marker>'
    return (
        f'<svg id="uses" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {ROOM} {y}" width="{ROOM}" role="img" aria-label="Map of uses">'
        f"<style>{STYLE}\n{hover}</style><defs>{tip}</defs>"
        f'<rect width="{ROOM}" height="{y}" style="fill: #FFFFFF; stroke: none"/>{"".join(pieces)}</svg>\n'
    )


def _sections(nodes: Iterable[Mapping[str, str]]) -> list[tuple[str, list[str]]]:
    return [(section, [node["number"] for node in members]) for section, members in groupby(nodes, key=lambda node: node["section"])]


def _levels(nodes: Iterable[str], used: Mapping[str, list[str]]) -> list[tuple[str, list[str]]]:
    """Entries by the longest way to one that uses nothing."""
    depth: dict[str, int] = {}
    for number in TopologicalSorter(used).static_order():
        depth[number] = max((1 + depth[one] for one in used[number]), default=0)
    return [("", [number for number in nodes if depth[number] == level]) for level in range(max(depth.values()) + 1)]


def _curve(start: tuple[float, float], end: tuple[float, float], width: float, height: float) -> str:
    """From the edge of one box to that of another, bowed if far; between boxes of a row, an arc above them."""
    (x, y), (u, v) = start, end
    x, u, bow = x + width / 2, u + width / 2, min(abs(v - y) / 5, 110) if abs(v - y) > 2.5 * height else 0
    if y == v:
        return f"M{x},{y} C{x},{y - 22} {u},{y - 22} {u},{y}"
    y, v = (y, v + height) if v < y else (y + height, v)
    return f"M{x},{y} C{x + bow},{(2 * y + v) / 3:.0f} {u + bow},{(y + 2 * v) / 3:.0f} {u},{v}"


def _box(node: Mapping[str, str], x: float, y: float, width: float, height: float, *, titled: bool) -> str:
    words = f"({node['number']}) {node['title']} [{node['kind']}; {node['section']}; {node['status']}]"
    title = node["title"] if len(node["title"]) <= 36 else f"{node['title'][:34]}..."
    below = f'<text class="t" x="{x + width / 2}" y="{y + height - 8}">{escape(title)}</text>' if titled else ""
    return (
        f'<title>{escape(words)}</title><rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{COLOURS[node["status"]]}" '
        f'rx="{height / 2 if node["kind"] == "definition" else 3}" stroke-dasharray="{OUTLINES.get(node["kind"], "none")}"/>'
        f'<text class="b" x="{x + width / 2}" y="{y + 15}">{escape(node["number"])}</text>{below}'
    )


def _legend() -> str:
    shown = [(status, colour, "none") for status, colour in COLOURS.items()] + [(kind, "#FFFFFF", dash) for kind, dash in OUTLINES.items()]
    pieces = [
        f'<rect x="{MARGIN + 125 * i}" y="10" width="18" height="14" fill="{colour}" stroke-dasharray="{dash}"/>'
        f'<text x="{MARGIN + 24 + 125 * i}" y="21">{name}</text>'
        for i, (name, colour, dash) in enumerate(shown)
    ]
    return "".join(pieces) + "".join(
        f'<path class="use {by}" marker-end="url(#use)" d="M{MARGIN + 190 * i},42 h36"/>'
        f'<text x="{MARGIN + 44 + 190 * i}" y="46">{words}</text>'
        for i, (by, words) in enumerate(USES.items())
    )
