-- How did the same build compare with itself? One row a canary: one leg measured twice, in one pair.
-- run_id: the run
-- workload: name of the workload
-- level: requests sent at once
-- mode: serial or batch
-- pair: number of the pair
-- a: request throughput of arm a, requests/s; NULL where it has no good measurement
-- b: request throughput of arm b, requests/s; NULL where it has no good measurement
CREATE VIEW canary_pairs AS
WITH tried AS (
    SELECT run_id, workload, level, mode, pair, attempt,
        max(request_throughput) FILTER (WHERE options ->> 'arm' = 'a' AND status = 'ok') AS a,
        max(request_throughput) FILTER (WHERE options ->> 'arm' = 'b' AND status = 'ok') AS b
    FROM records LEFT JOIN process_figures USING (record_id)
    WHERE kind = 'canary'
    GROUP BY run_id, workload, level, mode, pair, attempt
)
SELECT run_id, workload, level, mode, pair,
    coalesce(arg_max(tried.a, attempt) FILTER (WHERE tried.b IS NOT NULL), arg_max(tried.a, attempt)) AS a,
    coalesce(arg_max(tried.b, attempt) FILTER (WHERE tried.a IS NOT NULL), arg_max(tried.b, attempt)) AS b
FROM tried
GROUP BY run_id, workload, level, mode, pair;
