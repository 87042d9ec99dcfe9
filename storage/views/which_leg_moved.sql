-- When a ratio changed from one run of a series to the next, which leg moved? A ratio that rose because serial slowed is no improvement.
-- run_id: the run
-- previous_run_id: the run of the series before it
-- commit: of the engine under test
-- previous_commit: of the run before
-- series: what may be drawn as one line
-- workload: name of the workload
-- level: requests sent at once
-- metric: name of the ratio
-- ratio: geometric mean over the pairs that count
-- previous_ratio: of the run before
-- ratio_change: relative, 0.02 is 2 % up
-- serial_change: of the serial leg's value, relative
-- batch_change: of the batch leg's value, relative
-- serial_noise: standard error of the serial change; NULL below two pairs in either run
-- batch_noise: standard error of the batch change; NULL below two pairs in either run
-- mover: serial, batch, both or neither: a leg moved where its change is 2 % and three standard errors or more; NULL without noise
-- hollow: the ratio got better while the batch leg itself did not
-- measured_at: start of the run's first measurement, UTC
CREATE VIEW which_leg_moved AS
WITH runs_of_series AS (
    SELECT run_id, "commit", series, workload, level, metric, count(*) AS pairs,
        avg(ln(ratio)) AS ratio_log, avg(ln(serial)) AS serial_log, avg(ln(batch)) AS batch_log,
        var_samp(ln(serial)) / count(*) AS serial_variance, var_samp(ln(batch)) / count(*) AS batch_variance
    FROM target_ratios WHERE valid
    GROUP BY run_id, "commit", series, workload, level, metric
),
started AS (SELECT run_id, min(started_at) AS measured_at FROM records GROUP BY run_id),
steps AS (
    SELECT *,
        lag(run_id) OVER place AS previous_run_id, lag("commit") OVER place AS previous_commit,
        exp(lag(ratio_log) OVER place) AS previous_ratio,
        exp(ratio_log - lag(ratio_log) OVER place) - 1 AS ratio_change,
        exp(serial_log - lag(serial_log) OVER place) - 1 AS serial_change,
        exp(batch_log - lag(batch_log) OVER place) - 1 AS batch_change,
        sqrt(serial_variance + lag(serial_variance) OVER place) AS serial_noise,
        sqrt(batch_variance + lag(batch_variance) OVER place) AS batch_noise
    FROM runs_of_series JOIN started USING (run_id)
    WINDOW place AS (PARTITION BY series, workload, level, metric ORDER BY measured_at, run_id, "commit")
),
judged AS (
    SELECT *,
        abs(serial_change) >= greatest(0.02, 3 * serial_noise) AS serial_moved,
        abs(batch_change) >= greatest(0.02, 3 * batch_noise) AS batch_moved,
        CASE WHEN metric = 'single_latency_ratio' THEN -1 ELSE 1 END AS better
    FROM steps WHERE previous_run_id IS NOT NULL
)
SELECT run_id, previous_run_id, "commit", previous_commit, series, workload, level, metric, exp(ratio_log) AS ratio, previous_ratio,
    ratio_change, serial_change, batch_change, serial_noise, batch_noise,
    CASE
        WHEN serial_noise IS NULL OR batch_noise IS NULL THEN NULL
        WHEN serial_moved AND batch_moved THEN 'both'
        WHEN serial_moved THEN 'serial'
        WHEN batch_moved THEN 'batch'
        ELSE 'neither'
    END AS mover,
    coalesce(ratio_change * better > 0 AND serial_moved AND serial_change * better < 0 AND NOT (batch_moved AND batch_change * better > 0),
        false) AS hollow,
    measured_at
FROM judged;
