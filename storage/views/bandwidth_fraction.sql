-- Which share of the machine's read bandwidth did decoding reach? Where the measurement reports the figures it takes.
-- run_id: the run
-- workload: name of the workload
-- level: requests sent at once
-- mode: serial or batch
-- processes: processes that report their decode steps
-- step_bytes: bytes a decode step must read, mean
-- step_s: seconds of a decode step, mean
-- bandwidth: the machine's measured read bandwidth, bytes/s, mean; NULL where no machine probe ran on it
-- bandwidth_fraction: step_bytes / step_s / bandwidth, mean over processes; NULL without a bandwidth
CREATE VIEW bandwidth_fraction AS
SELECT run_id, workload, level, mode, count(*) AS processes, avg(step_bytes) AS step_bytes, avg(step_s) AS step_s,
    avg(bandwidth) AS bandwidth, avg(bandwidth_fraction) AS bandwidth_fraction
FROM decode_reads
GROUP BY run_id, workload, level, mode;
