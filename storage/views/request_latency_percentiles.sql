-- How long did requests take, median and tail? Percentiles within each process, averaged over the processes that count.
-- run_id: the run
-- workload: name of the workload
-- level: requests sent at once
-- mode: serial or batch
-- processes: processes that count
-- requests: requests in them
-- mean_s: mean, seconds
-- p50_s: median, seconds
-- p90_s: 90th percentile, seconds
-- p95_s: 95th percentile, seconds
-- p99_s: 99th percentile, seconds
-- max_s: largest of all, seconds
CREATE VIEW request_latency_percentiles AS
SELECT run_id, workload, level, mode, count(*) AS processes, sum(samples)::BIGINT AS requests, avg(mean) AS mean_s, avg(p50) AS p50_s,
    avg(p90) AS p90_s, avg(p95) AS p95_s, avg(p99) AS p99_s, max(maximum) AS max_s
FROM legs JOIN process_latencies USING (record_id)
WHERE trouble IS NULL AND metric = 'e2el_s'
GROUP BY run_id, workload, level, mode;
