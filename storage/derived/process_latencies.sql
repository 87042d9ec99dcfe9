-- The latency distributions of each process in `batch` (a table of record_ids), over the completed requests of its kept rounds.
INSERT INTO process_latencies
WITH completed AS (
    SELECT * FROM requests
    WHERE NOT warmup AND finish_reason IN ('length', 'stop') AND record_id IN (SELECT record_id FROM batch)
),
samples AS (
    SELECT record_id, 'e2el_s' AS metric, e2el_s AS value FROM completed
    UNION ALL SELECT record_id, 'ttft_s', ttft_s FROM completed WHERE ttft_s IS NOT NULL
    UNION ALL SELECT record_id, 'tpot_s', tpot_s FROM completed WHERE tpot_s IS NOT NULL
    UNION ALL SELECT record_id, 'itl_s', unnest(itl_s) FROM completed
)
SELECT record_id, metric, count(*), avg(value), quantile_cont(value, 0.5), quantile_cont(value, 0.9), quantile_cont(value, 0.95),
    quantile_cont(value, 0.99), max(value)
FROM samples GROUP BY record_id, metric
