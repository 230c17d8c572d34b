"""Delta logs and journals, read without a JVM and without opening a table.

May import ``core``; third-party packages only inside the functions that need them, because reading a local
log has to cost milliseconds, and because this package travels to Spark drivers that may not have them.
"""
