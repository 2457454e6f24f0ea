"""Parquet rows on disk or S3: one immutable shard per attempt, packs of shards, and views."""
