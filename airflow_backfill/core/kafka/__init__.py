"""The state machine of a Kafka partition whose history is handed over to a landing table (strategy ``source``).

K is the topic as Kafka still has it, L the landing table: the Delta table in which a shared ingestion lands new
records. U is the rows of one partition in versions of L that are not applied yet. A split takes its history from K and
later records from U, each record once. ``rows`` decides row by row, ``batches`` for sets of rows, ``scan`` for ranges
with holes, which is what Spark reads. ``opening`` interprets the broker's answers.
"""
