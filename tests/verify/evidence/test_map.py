"""The map of the derivations: every entry once, every use, colours from the evidence, and a picture that is well formed."""

import json
from functools import cache
from xml.etree import ElementTree

import pytest
from iclflow.theory.equations import equation
from iclflow.verify.evidence.map import COLOURS, graph, statuses, svg

SVG = "{http://www.w3.org/2000/svg}"


@cache
def small():
    return graph({"24": "numeric", "59": "exact"}, ["24"])


def boxes(picture: str) -> dict[str, tuple[float, float, str]]:
    """{number: (x, y, colour)} of the boxes of a picture."""
    groups = ElementTree.fromstring(picture).iter(f"{SVG}g")
    shown = {}
    for group in groups:
        box, number = group.find(f"{SVG}rect"), group.find(f"{SVG}text")
        shown[number.text] = (float(box.get("x")), float(box.get("y")), box.get("fill"))
    return shown


def test_the_map_of_one_equation_holds_what_it_rests_on():
    numbers = {node["number"] for node in small()["nodes"]}
    assert numbers == {"2", "3", "4", "8", "28", "31", "32", "9-closed", "59", "24"}
    assert {"from": "24", "to": "59", "by": "line"} in small()["edges"]
    assert all({edge["from"], edge["to"]} <= numbers for edge in small()["edges"])
    for node in small()["nodes"]:
        assert node["kind"] == equation(node["number"]).kind
    assert json.loads(json.dumps(small())) == small()


def test_nodes_stand_in_the_order_of_the_paper():
    assert [node["number"] for node in small()["nodes"]] == ["2", "3", "4", "8", "9-closed", "24", "28", "31", "32", "59"]
    sections = [node["section"] for node in small()["nodes"]]
    assert sections == sorted(sections, key=lambda name: ("Section", "Appendix").index(name.split()[0]))
    assert sections[4] == "Section 2.3"  # (9-closed) stands beside (9)


def test_colours_are_those_of_the_verdicts():
    found = {node["number"]: node["status"] for node in small()["nodes"]}
    assert (found["24"], found["59"], found["31"], found["28"]) == ("numeric", "exact", "not judged", "definition")
    shown = boxes(svg(small()))
    assert {number: shown[number][2] for number in found} == {number: COLOURS[status] for number, status in found.items()}
    assert len(set(COLOURS.values())) == len(COLOURS)


def test_each_entry_stands_below_what_it_uses():
    shown = boxes(svg(small(), levels=True))
    assert set(shown) == {node["number"] for node in small()["nodes"]}
    for edge in small()["edges"]:
        assert shown[edge["from"]][1] > shown[edge["to"]][1]
    assert len({place[:2] for place in shown.values()}) == len(shown)


def test_rows_are_sections():
    shown = boxes(svg(small()))
    rows = {node["number"]: shown[node["number"]][1] for node in small()["nodes"]}
    assert rows["2"] == rows["3"] == rows["4"] < rows["8"] < rows["24"] < rows["28"] == rows["31"] == rows["32"] < rows["59"]


def test_pictures_show_uses_and_links():
    picture = svg(small(), links=lambda number: f"#eq-{number}" * (number != "31"), levels=True)
    root = ElementTree.fromstring(picture)
    uses = [path for path in root.iter(f"{SVG}path") if (path.get("class") or "").startswith("use ") and "r" in path.get("class")]
    drawn = [path for path in uses if path.get("d", "").count("C")]
    assert len(drawn) == len(small()["edges"])
    assert {link.get("href") for link in root.iter(f"{SVG}a")} == {f"#eq-{node['number']}" for node in small()["nodes"]} - {"#eq-31"}
    letters = sum(edge["by"] == "letter" for edge in small()["edges"])
    assert svg(small()).count(" C") == len(drawn) - letters > 0  # letters are left out of rows by section


def test_the_status_is_that_of_the_weakest_line():
    def evidence(proof, *lines):
        shown = [{"status": status, "relation": relation} for relation, status in lines]
        return {"entries": [{"equation": "24", "proof": {"status": proof}, "lines": shown}]}

    assert statuses(evidence("holds", (":=", "assumed"), ("=", "exact"))) == {"24": "exact"}
    assert statuses(evidence("holds", ("=", "sampled"), ("=", "exact"), ("=", "numeric"))) == {"24": "sampled"}
    assert statuses(evidence("fails", ("=", "exact"))) == {"24": "fails"}
    assert statuses(evidence("none")) == {"24": "not judged"}
    for wrong in ([], {}, {"entries": [{"equation": "24"}]}):
        with pytest.raises(ValueError, match="evidence"):
            statuses(wrong)
