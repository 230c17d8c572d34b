"""Each strategy on Spark: how a build is prepared, and how its rounds are read and written."""
