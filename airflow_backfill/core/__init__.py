"""What is true, what comes next, what is allowed.

Pure: standard library only, no clock, no randomness, no I/O. Runs on Python 3.10 and later, because it
travels to Spark drivers. The same functions run in production and in the simulation. Numbers such as S000.24
in comments are entries of docs/behaviours.
"""
