-- What did the kinds beside the pairs find? One row a figure; a measurement without figures has one row without a name.
-- run_id: the run
-- workload: name of the workload
-- kind: parity, reference, occupancy, idle, build_order, steady_state or machine
-- measurement: the plan's name for it
-- mode: serial or batch
-- level: requests sent at once
-- attempt: number of the attempt
-- record_id: the record
-- status: ok, failed, timeout, killed, invalid
-- reason: why it failed or is invalid, empty where it is good
-- name: name of the figure, its unit at the end
-- value: the figure
CREATE VIEW other_figures AS
SELECT run_id, workload, kind, measurement, mode, level, attempt, record_id, status,
    concat_ws('; ', failure_message, nullif(array_to_string(invalid_because, '; '), '')) AS reason, name, value
FROM records LEFT JOIN named_values USING (record_id)
WHERE kind NOT IN ('latency', 'throughput', 'canary', 'comparison');
