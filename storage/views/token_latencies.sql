-- How long until the first token (TTFT), per output token (TPOT) and between tokens (ITL)? Averaged over the processes that count.
-- run_id: the run
-- workload: name of the workload
-- level: requests sent at once
-- mode: serial or batch
-- metric: ttft_s, tpot_s or itl_s
-- processes: processes that have it
-- samples: values in them
-- mean_s: mean, seconds
-- p50_s: median, seconds
-- p90_s: 90th percentile, seconds
-- p95_s: 95th percentile, seconds
-- p99_s: 99th percentile, seconds
-- max_s: largest of all, seconds
CREATE VIEW token_latencies AS
SELECT run_id, workload, level, mode, metric, count(*) AS processes, sum(samples)::BIGINT AS samples, avg(mean) AS mean_s,
    avg(p50) AS p50_s, avg(p90) AS p90_s, avg(p95) AS p95_s, avg(p99) AS p99_s, max(maximum) AS max_s
FROM legs JOIN process_latencies USING (record_id)
WHERE trouble IS NULL AND metric IN ('ttft_s', 'tpot_s', 'itl_s')
GROUP BY run_id, workload, level, mode, metric;
