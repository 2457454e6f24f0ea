"""The sweep engine: from a list of trials to Parquet rows."""
