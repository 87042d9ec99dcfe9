-- Which share of the machine's read bandwidth did decoding reach? Where the measurement reports the figures it takes.
-- run_id: the run
-- workload: name of the workload
-- level: requests sent at once
-- mode: serial or batch
-- processes: processes that report it
-- step_bytes: bytes a decode step must read, mean
-- step_s: seconds of a decode step, mean
-- bandwidth: the machine's measured read bandwidth, bytes/s, mean
-- bandwidth_fraction: step_bytes / step_s / bandwidth, mean over processes
CREATE VIEW bandwidth_fraction AS
WITH decode AS (SELECT record_id, sum(steps) AS decode_steps FROM step_rows GROUP BY record_id),
told AS (
    SELECT record_id, max(value) FILTER (WHERE name = 'step_bytes') AS step_bytes,
        max(value) FILTER (WHERE name = 'read_bandwidth_bytes_per_s') AS bandwidth,
        max(value) FILTER (WHERE name = 'bandwidth_fraction') AS stated
    FROM named_values GROUP BY record_id
),
each AS (
    SELECT legs.run_id, legs.workload, legs.level, legs.mode, told.step_bytes, told.bandwidth, told.stated,
        CASE WHEN decode_steps > 0 AND decode_s > 0 THEN decode_s / decode_steps END AS step_s
    FROM legs JOIN records USING (record_id) JOIN told USING (record_id) LEFT JOIN decode USING (record_id)
    WHERE trouble IS NULL
)
SELECT run_id, workload, level, mode, count(*) AS processes, avg(step_bytes) AS step_bytes, avg(step_s) AS step_s,
    avg(bandwidth) AS bandwidth,
    avg(coalesce(stated, CASE WHEN bandwidth > 0 THEN step_bytes / step_s / bandwidth END)) AS bandwidth_fraction
FROM each
WHERE coalesce(stated, CASE WHEN bandwidth > 0 THEN step_bytes / step_s / bandwidth END) IS NOT NULL
GROUP BY run_id, workload, level, mode;
