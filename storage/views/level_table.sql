-- How long did a round and a request take at each level in each mode? Means over processes, each process with its own mean.
-- run_id: the run
-- level: requests sent at once
-- mode: serial or batch
-- wall_s: wall of a round, seconds
-- e2el_mean_s: request latency, seconds
-- ttft_mean_s: time to first token, seconds; NULL where there is no boundary
-- tpot_mean_s: time per output token, seconds
-- request_throughput: requests/s
-- output_throughput: tokens/s
-- processes: processes that count
-- rounds: kept rounds of them together
-- workload: name of the workload
CREATE VIEW level_table AS
SELECT run_id, level, mode, avg(wall_s) AS wall_s, avg(e2el_mean_s) AS e2el_mean_s, avg(ttft_mean_s) AS ttft_mean_s,
    avg(tpot_mean_s) AS tpot_mean_s, avg(request_throughput) AS request_throughput, avg(output_throughput) AS output_throughput,
    count(*) AS processes, sum(rounds)::BIGINT AS rounds, workload
FROM legs
WHERE trouble IS NULL
GROUP BY run_id, workload, level, mode
ORDER BY run_id, workload, level, mode = 'batch';
