"""Operators that people steer a build with: their DAG does not build it."""

from __future__ import annotations

from airflow_backfill.operators.answer import AnswerOperator
from airflow_backfill.operators.cancel import CancelOperator
from airflow_backfill.operators.explain import ExplainOperator
from airflow_backfill.operators.prove import ProveOperator
from airflow_backfill.operators.recover import RecoverOperator
from airflow_backfill.operators.repair import RepairOperator

_OPERATORS = (AnswerOperator, CancelOperator, ExplainOperator, ProveOperator, RecoverOperator, RepairOperator)
ORDERS = tuple(one.__name__ for one in _OPERATORS)
"""Their names in Airflow's database."""
