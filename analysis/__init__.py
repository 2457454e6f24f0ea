"""From Parquet rows to statistics, tables and figures. Knows neither Ray nor MLflow."""
