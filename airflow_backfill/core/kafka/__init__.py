"""The state machine of a Kafka partition whose history is handed over to a landing table (strategy ``source``).

K is the topic as Kafka still has it, L the Delta table in which a shared ingestion lands its new records, U the rows
of one partition in versions of L that were not applied yet. A split takes its history from K and everything later from
U, each surviving record once. ``rows`` judges row by row; ``batches`` says the same of sets; ``scan`` of
ranges with holes, which is what Spark reads. ``opening`` knows what the broker's answers mean.
"""
