"""Strategies are found once in a process, whole for each thread that asks."""

from __future__ import annotations

from threading import Event, Thread

from airflow_backfill.core.model import registry


def test_a_thread_that_asks_meanwhile_waits_for_all_strategies(monkeypatch):
    known = dict(registry._KNOWN) or {name: registry.registered(name) for name in registry.names()}
    asked, go_on, found = Event(), Event(), []

    def slowly(name):
        asked.set()
        assert go_on.wait(20)
        for strategy in known.values():
            registry.register(strategy)

    monkeypatch.setattr(registry, "_KNOWN", {})
    monkeypatch.setattr(registry, "_begun", False)
    monkeypatch.setattr(registry, "_found", False)
    monkeypatch.setattr(registry, "import_module", slowly)
    threads = [Thread(target=lambda: found.append(registry.names())) for _ in range(2)]
    threads[0].start()
    assert asked.wait(20)
    threads[1].start()
    threads[1].join(0.1)  # does not end before the first one goes on
    go_on.set()
    for thread in threads:
        thread.join(20)
    assert found == [tuple(known)] * 2
