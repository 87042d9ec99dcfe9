-- What is the ratio of batch to serial of each pair, in the metric that the targets are set on?
-- run_id: the run
-- commit: of the engine under test
-- workload: name of the workload
-- series: what may be drawn as one line
-- metric: single_latency_ratio at level 1 (request latencies), speedup_vs_serial above (request throughputs)
-- level: requests sent at once
-- pair: number of the pair
-- serial: value of the serial leg, seconds or requests/s; NULL where it is missing
-- batch: value of the batch leg, seconds or requests/s; NULL where it is missing
-- ratio: batch / serial; NULL where the pair does not count
-- valid: the pair counts
-- reason: why it does not count, empty where it does
-- dirty: built from a tree with uncommitted changes
-- broken: something failed that no restless machine explains
CREATE VIEW target_ratios AS
SELECT run_id, "commit", workload, series,
    CASE WHEN level = 1 THEN 'single_latency_ratio' ELSE 'speedup_vs_serial' END AS metric,
    level, pair,
    CASE WHEN level = 1 THEN serial_e2el_s ELSE serial_throughput END AS serial,
    CASE WHEN level = 1 THEN batch_e2el_s ELSE batch_throughput END AS batch,
    CASE WHEN NOT valid THEN NULL WHEN level = 1 THEN batch_e2el_s / serial_e2el_s ELSE batch_throughput / serial_throughput END AS ratio,
    valid, reason, dirty, broken
FROM pairs;
