"""Delta logs and journals, read without a JVM and without opening a table.

May import ``core``. Third-party packages are imported only in the functions that need them: reading a local log must
take milliseconds, and this package also runs on Spark drivers that may not have them.
"""
