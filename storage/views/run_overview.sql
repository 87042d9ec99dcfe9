-- Which runs are there, of what, and how did they end?
-- run_id: the run
-- commit: of the engine under test
-- dirty: built from a tree with uncommitted changes
-- workloads: workloads measured
-- started_at: UTC; where nothing else says so, the stamp in the run's name
-- finished_at: UTC; of the last measurement, where the run did not say
-- exit_code: 0 all targets pass, 1 one fails, 3 undecided, 2 broken; NULL where the run never ended or judged nothing
-- measurements: records
-- failed: records that are not ok
-- pairs: pairs measured
-- valid_pairs: of these, pairs that count
-- passes: verdicts PASS
-- fails: verdicts FAIL
-- undecided: verdicts INCONCLUSIVE
-- errors: verdicts ERROR
CREATE VIEW run_overview AS
WITH measured AS (
    SELECT run_id, max("commit") AS "commit", bool_or(dirty) AS dirty, list_sort(list_distinct(list(workload))) AS workloads,
        min(started_at) AS started_at, max(finished_at) AS finished_at, count(*) AS measurements,
        count(*) FILTER (WHERE status <> 'ok') AS failed
    FROM records GROUP BY run_id
),
paired AS (SELECT run_id, count(*) AS pairs, count(*) FILTER (WHERE valid) AS valid_pairs FROM pairs GROUP BY run_id),
judged AS (
    SELECT run_id, count(*) FILTER (WHERE status = 'PASS') AS passes, count(*) FILTER (WHERE status = 'FAIL') AS fails,
        count(*) FILTER (WHERE status = 'INCONCLUSIVE') AS undecided, count(*) FILTER (WHERE status = 'ERROR') AS errors
    FROM verdicts GROUP BY run_id
)
SELECT run_id, coalesce(measured."commit", runs."commit") AS "commit", dirty,
    coalesce(workloads, CASE WHEN runs.workload IS NULL THEN [] ELSE [runs.workload] END) AS workloads,
    coalesce(runs.started_at, measured.started_at, try_strptime(left(run_id, 16), '%Y%m%dT%H%M%SZ')) AS started_at,
    coalesce(runs.finished_at, measured.finished_at) AS finished_at,
    exit_code, coalesce(measurements, 0) AS measurements, coalesce(failed, 0) AS failed, coalesce(pairs, 0) AS pairs,
    coalesce(valid_pairs, 0) AS valid_pairs, passes, fails, undecided, errors
FROM runs
FULL JOIN measured USING (run_id)
LEFT JOIN paired USING (run_id)
LEFT JOIN judged USING (run_id);
