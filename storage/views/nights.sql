-- Which nights does each series have, and of which commit and binary?
-- run_id: the run
-- series: what may be drawn as one line
-- workload: name of the workload
-- commit: of the engine under test
-- position: place in topological order, oldest 1; NULL for a commit without a place and for uncommitted changes
-- build: digest of the sources and of the native module, the same where both are; NULL where no batch leg loaded an engine
-- measured_at: start of the run's first batch leg, UTC
CREATE VIEW nights AS
SELECT run_id, series_id AS series, workload, records."commit",
    CASE WHEN bool_or(dirty) OR NOT coalesce(any_value(reachable), false) THEN NULL ELSE any_value(position) END AS position,
    max(tree || ':' || module_sha256) AS build,
    min(started_at) AS measured_at
FROM records
LEFT JOIN commits ON commits."commit" = records."commit"
WHERE kind IN ('latency', 'throughput') AND mode = 'batch' -- whose series is the pairs'
GROUP BY run_id, series_id, workload, records."commit";
