"""What people see of a build and order of it, for the command line, operators and the page in Airflow. Reads the
ledger without a JVM; imports neither Airflow nor PySpark.
"""
