"""A seeded simulation that drives the production core through everything that can go wrong.

``source`` and ``target`` model two Delta tables, ``process`` an attempt that can crash at every effect and
come back as a zombie, ``dag`` the scheduler that retries, ``way_out`` what people do about errors, ``judge`` the
invariants; ``world`` puts them together under one seed. Nothing in here decides what the product does: the decisions
are the core's own.
"""
