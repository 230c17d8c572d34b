"""An attempt that goes on as far as a test wants it to."""

from __future__ import annotations

from typing import Any, Protocol

from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.state import effect as fx


class Answers(Protocol):
    def answer(self, effect: fx.Effect) -> Any: ...


class Running:
    def __init__(self, model: Answers, generator: fx.Asks[Any]) -> None:
        self._model, self._generator = model, generator
        self.ended = False
        self.result: Any = None
        self.error: BackfillError | None = None
        self.waits_at: fx.Effect | None = None
        self._resume(lambda: next(generator))

    def step(self, answer: Any = None) -> None:
        """Answer the effect that the attempt waits at: with ``answer`` if there is one, else as the model does."""
        assert self.waits_at is not None
        if isinstance(answer, BackfillError):
            self._resume(lambda: self._generator.throw(answer))
            return
        if answer is None:
            try:
                answer = self._model.answer(self.waits_at)
            except BackfillError as error:
                thrown = error
                self._resume(lambda: self._generator.throw(thrown))
                return
        self._resume(lambda: self._generator.send(answer))

    def until(self, kind: type[Any], nth: int = 1) -> Any:
        """Go on to the nth effect of this kind, which is left unanswered."""
        while nth:
            while not self.ended and not isinstance(self.waits_at, kind):
                self.step()
            assert not self.ended, f"the attempt ended before: {self.error or self.result}"
            nth -= 1
            if nth:
                self.step()
        return self.waits_at

    def finish(self) -> Any:
        """Go on to the end: the result, or the attempt's error."""
        while not self.ended:
            self.step()
        if self.error is not None:
            raise self.error
        return self.result

    def _resume(self, resume: Any) -> None:
        try:
            self.waits_at = resume()
        except StopIteration as stop:
            self.ended, self.result = True, stop.value
        except BackfillError as error:
            self.ended, self.error = True, error
