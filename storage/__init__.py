"""Everything that is kept: the records of measurements (`records`, plain JSON) and the DuckDB store over them."""
