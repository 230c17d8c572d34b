"""The diagram of phases in the documentation, drawn from the table of transitions.

``python -m tests.core.state.diagram`` writes it there; the test fails while it differs.
"""

from __future__ import annotations

from pathlib import Path

from airflow_backfill.core.values.phase import TRANSITIONS, Event, Phase

PAGE = Path(__file__).parents[3] / "docs" / "architecture.md"
BEGIN, END = "<!-- phases -->", "<!-- /phases -->"


def diagram() -> str:
    """A Mermaid state diagram: one arrow for all events that lead from one phase to the same other one."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {Phase.SNAPSHOT.value}: plan"]
    for phase, events in TRANSITIONS.items():
        for to in Phase:
            leading = [event.value for event in Event if events.get(event) is to]
            if leading:
                lines.append(f"    {phase.value} --> {to.value}: {', '.join(leading)}")
    return "\n".join([*lines, "```"])


def redrawn(text: str) -> str:
    """The text with the diagram between its markers."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{diagram()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(redrawn(PAGE.read_text()))
