"""From Parquet rows to statistics, tables and figures, without Ray and MLflow."""
