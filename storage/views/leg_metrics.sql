-- What is the value of every metric for each leg that counts? One row a leg and metric: for targets on any of them.
-- run_id: the run
-- workload: name of the workload
-- kind: latency or throughput
-- level: requests sent at once
-- pair: number of the pair
-- mode: serial or batch
-- record_id: the record that counts
-- metric: name with its unit; a latency without a statistic is its mean
-- value: the figure of the process; rows without one are absent
CREATE VIEW leg_metrics AS
WITH figures AS (
    SELECT record_id, unnest([
        {'metric': 'wall_s', 'value': wall_s},
        {'metric': 'finish_spread_s', 'value': finish_spread_s},
        {'metric': 'request_throughput', 'value': request_throughput},
        {'metric': 'output_throughput', 'value': output_throughput}
    ]) AS item
    FROM process_figures
),
latencies AS (
    SELECT record_id, metric, unnest([
        {'statistic': '', 'value': mean}, {'statistic': '_mean', 'value': mean}, {'statistic': '_p50', 'value': p50},
        {'statistic': '_p90', 'value': p90}, {'statistic': '_p95', 'value': p95}, {'statistic': '_p99', 'value': p99},
        {'statistic': '_max', 'value': maximum}
    ]) AS item
    FROM process_latencies
),
metrics AS (
    SELECT record_id, item.metric AS metric, item.value AS value FROM figures
    UNION ALL SELECT record_id, left(metric, -2) || item.statistic || '_s', item.value FROM latencies
    UNION ALL SELECT record_id, name, value FROM named_values
    UNION ALL SELECT record_id, 'bandwidth_fraction', bandwidth_fraction FROM decode_reads
)
SELECT run_id, workload, kind, level, pair, mode, record_id, metric, value
FROM legs JOIN metrics USING (record_id)
WHERE value IS NOT NULL;
