-- Which pairs do not count, and why?
-- run_id: the run
-- workload: name of the workload
-- level: requests sent at once
-- pair: number of the pair
-- reason: why it does not count
-- broken: something failed that no restless machine explains
-- serial_record_id: record of the serial leg, NULL where it was not measured
-- batch_record_id: record of the batch leg, NULL where it was not measured
-- same_tokens: both legs generated the same tokens; NULL where one generated none
CREATE VIEW invalid_pairs AS
SELECT run_id, workload, level, pair, reason, broken, serial_record_id, batch_record_id, same_tokens
FROM pairs WHERE NOT valid;
