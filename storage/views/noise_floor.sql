-- How restless was the machine each night? Spread between processes that measured the same, and the A/A canary where one ran.
-- run_id: the run
-- measured_at: start of the run's first measurement, UTC
-- series: what may be drawn as one line
-- workload: name of the workload
-- level: requests sent at once
-- pairs: pairs that count
-- serial_cv: standard deviation / mean of the serial leg over processes; NULL for one
-- batch_cv: the same of the batch leg
-- ratio_cv: the same of the ratio, on logarithms
-- canary_ratio: same build against itself: geometric mean of arm b / arm a in request throughput; NULL where none ran
-- canary_pairs: pairs of the canary
CREATE VIEW noise_floor AS
WITH started AS (SELECT run_id, min(started_at) AS measured_at FROM records GROUP BY run_id),
canaries AS (
    SELECT run_id, workload, level, exp(avg(ln(b / a))) AS canary_ratio, count(*) AS canary_pairs
    FROM canary_pairs WHERE a > 0 AND b > 0
    GROUP BY run_id, workload, level
),
spreads AS (
    SELECT run_id, series, workload, level, count(*) AS pairs,
        CASE WHEN count(*) > 1 THEN stddev_samp(serial) / avg(serial) END AS serial_cv,
        CASE WHEN count(*) > 1 THEN stddev_samp(batch) / avg(batch) END AS batch_cv,
        CASE WHEN count(*) > 1 THEN stddev_samp(ln(ratio)) END AS ratio_cv
    FROM target_ratios WHERE valid
    GROUP BY run_id, series, workload, level
)
SELECT run_id, measured_at, series, workload, level, coalesce(pairs, 0) AS pairs, serial_cv, batch_cv, ratio_cv, canary_ratio,
    coalesce(canary_pairs, 0) AS canary_pairs
FROM spreads
FULL JOIN canaries USING (run_id, workload, level)
JOIN started USING (run_id);
