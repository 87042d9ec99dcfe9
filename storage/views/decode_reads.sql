-- How fast did each process that counts read memory while it decoded, and which share of the machine's read bandwidth is that?
-- run_id: the run
-- workload: name of the workload
-- level: requests sent at once
-- pair: number of the pair
-- mode: serial or batch
-- record_id: the record that counts
-- step_s: seconds of a decode step, mean
-- step_bytes: bytes that a decode step must read
-- bytes_per_s: step_bytes / step_s
-- bandwidth: read bandwidth of the machine's memory, bytes/s; NULL where none was measured on that machine
-- probed_at: start of the machine probe that says so, the last one before the process, else the first one after it, UTC
-- bandwidth_fraction: bytes_per_s / bandwidth
CREATE VIEW decode_reads AS
WITH figures AS (
    SELECT record_id, max(value) FILTER (WHERE name = 'decode_step_s') AS step_s,
        max(value) FILTER (WHERE name = 'decode_step_bytes') AS step_bytes
    FROM named_values WHERE name IN ('decode_step_s', 'decode_step_bytes') GROUP BY record_id
),
probes AS (
    SELECT environments.fingerprint, series.devices, started_at AS probed_at, value AS bandwidth
    FROM records JOIN named_values USING (record_id) JOIN environments USING (environment_id) JOIN series USING (series_id)
    WHERE kind = 'machine' AND status = 'ok' AND name = 'read_bandwidth_bytes_per_s'
),
steps AS (
    SELECT legs.*, series.devices, step_s, step_bytes
    FROM legs JOIN figures USING (record_id) JOIN series USING (series_id)
    WHERE trouble IS NULL AND step_s > 0 AND step_bytes IS NOT NULL
)
SELECT run_id, workload, level, pair, mode, record_id, step_s, step_bytes, step_bytes / step_s AS bytes_per_s,
    coalesce(before.bandwidth, after.bandwidth) AS bandwidth, coalesce(before.probed_at, after.probed_at) AS probed_at,
    step_bytes / step_s / coalesce(before.bandwidth, after.bandwidth) AS bandwidth_fraction
FROM steps
ASOF LEFT JOIN probes AS before
    ON before.fingerprint = steps.fingerprint AND before.devices = steps.devices AND before.probed_at <= steps.started_at
ASOF LEFT JOIN probes AS after
    ON after.fingerprint = steps.fingerprint AND after.devices = steps.devices AND after.probed_at >= steps.started_at;
