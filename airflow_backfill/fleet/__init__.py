"""Many tables from one list: each gets a DAG that builds it and a DAG that follows its source."""
