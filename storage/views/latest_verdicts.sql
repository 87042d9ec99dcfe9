-- What is the latest verdict on each target? Of each series, the run that started last.
-- run_id: the run
-- workload: name of the workload
-- series: what may be drawn as one line
-- metric: name of the ratio
-- level: requests sent at once
-- name: name of the target
-- status: PASS, FAIL, INCONCLUSIVE, ERROR
-- ratio: the estimate
-- low: lower end of its interval; NULL for a point
-- high: upper end of its interval; NULL for a point
-- direction: >= or <=
-- target: the bound
-- unit: of the bound
-- pairs: pairs that counted
-- reason: why, in words
-- measured_at: start of the run's first measurement, UTC
CREATE VIEW latest_verdicts AS
WITH run_series AS (
    SELECT run_id, workload, level, min(series_id) AS series, min(started_at) AS measured_at
    FROM legs WHERE mode = 'batch' GROUP BY run_id, workload, level
)
SELECT run_id, workload, series, metric, level, name, status, ratio, low, high, direction, target, unit, pairs, reason, measured_at
FROM verdicts
LEFT JOIN run_series USING (run_id, workload, level)
QUALIFY row_number() OVER (PARTITION BY workload, series, metric, level, name ORDER BY measured_at DESC NULLS LAST, run_id DESC) = 1;
