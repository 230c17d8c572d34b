"""The workload of the demo, of the end-to-end tests and of the benchmarks.

TPC-H orders and lineitem as Delta tables, a writer that keeps changing them, and a journal from which their rows at
every version follow, without Spark and without Delta. Shares no code with the product.
"""
