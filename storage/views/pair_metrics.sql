-- What are the two legs' values of every metric in each pair? For targets on any metric, ratios included.
-- run_id: the run
-- workload: name of the workload
-- series: what may be drawn as one line
-- metric: name of the metric, ratios by the metric that they divide
-- level: requests sent at once
-- pair: number of the pair
-- serial: value of the serial leg; NULL where it has none
-- batch: value of the batch leg; NULL where it has none
-- valid: the pair counts
-- reason: why it does not count, empty where it does
-- broken: something failed that no restless machine explains
CREATE VIEW pair_metrics AS
WITH both_legs AS (
    SELECT run_id, workload, kind, level, pair, metric,
        max(value) FILTER (WHERE mode = 'serial') AS serial, max(value) FILTER (WHERE mode = 'batch') AS batch
    FROM leg_metrics
    GROUP BY run_id, workload, kind, level, pair, metric
),
named AS (
    SELECT *, metric AS shown FROM both_legs
    UNION ALL SELECT *, unnest(['speedup_vs_serial', 'scaling_efficiency']) FROM both_legs
        WHERE metric = 'request_throughput' AND level > 1
    UNION ALL SELECT *, 'single_latency_ratio' FROM both_legs WHERE metric = 'e2el_s' AND level = 1
    UNION ALL SELECT *, 'single_ttft_ratio' FROM both_legs WHERE metric = 'ttft_s' AND level = 1
)
SELECT run_id, workload, series, shown AS metric, level, pair, serial, batch, valid, reason, broken
FROM named JOIN pairs USING (run_id, workload, kind, level, pair);
