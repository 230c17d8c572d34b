from __future__ import annotations

from airflow_backfill.core.values.phase import TRANSITIONS, Phase
from tests.core.state.diagram import BEGIN, END, PAGE, diagram, redrawn


def test_the_diagram_in_the_readme_is_the_table_of_transitions() -> None:
    text = PAGE.read_text()
    assert text.count(BEGIN) == text.count(END) == 1
    assert redrawn(text) == text, "drawn from another table: run python -m tests.core.state.diagram"


def test_every_transition_is_drawn() -> None:
    arrows = [line.split(": ") for line in diagram().splitlines() if "-->" in line]
    drawn = {(way.strip(), event) for way, events in arrows for event in events.split(", ")}
    expected = {
        (f"{phase.value} --> {to.value}", event.value)
        for phase, events in TRANSITIONS.items()
        for event, to in events.items()
    }
    assert drawn == expected | {(f"[*] --> {Phase.SNAPSHOT.value}", "plan")}


def test_redrawing_twice_changes_nothing() -> None:
    text = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert redrawn(redrawn(text)) == redrawn(text) and redrawn(text).startswith("before\n")
    assert redrawn(text).endswith(f"{END}\nafter\n")
