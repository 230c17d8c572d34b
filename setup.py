"""Packages only; everything else is in setup.cfg, which cannot both find packages and add one from outside."""

from __future__ import annotations

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["airflow_backfill*"]), "airflow_backfill.spark_apps"],
    package_dir={"airflow_backfill.spark_apps": "spark_apps"},
)
