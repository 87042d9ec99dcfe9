-- How did each ratio develop over the commits? In topological order; a point without a place says why in `placement`.
-- run_id: the run
-- commit: of the engine under test
-- commit_position: place in topological order, oldest 1; NULL where there is none
-- committed_at: commit date, UTC, for labels only: it orders nothing
-- series: what may be drawn as one line
-- workload: name of the workload
-- level: requests sent at once
-- metric: name of the ratio
-- ratio: geometric mean over the pairs that count; NULL where none does
-- low: lower end of the verdict's interval; NULL without one
-- high: upper end of the verdict's interval; NULL without one
-- verdict: PASS, FAIL, INCONCLUSIVE, ERROR; NULL where the level has no target
-- target: the bound
-- direction: >= or <=
-- placement: placed, or why there is no place
-- subject: first line of the commit's message
-- measured_at: start of the run's first measurement, UTC
-- pairs: pairs that count
CREATE VIEW ratio_by_commit AS
WITH run_starts AS (SELECT run_id, min(started_at) AS measured_at FROM records GROUP BY run_id),
points AS (
    SELECT run_id, "commit", bool_or(dirty) AS dirty, series, workload, level, metric, exp(avg(ln(ratio))) AS ratio, count(ratio) AS pairs
    FROM target_ratios
    GROUP BY run_id, "commit", series, workload, level, metric
)
SELECT points.run_id, points."commit",
    CASE WHEN NOT dirty AND reachable THEN commits.position END AS commit_position,
    commits.committed_at, series, points.workload, points.level, points.metric, points.ratio, verdicts.low, verdicts.high,
    verdicts.status AS verdict, verdicts.target, verdicts.direction,
    CASE
        WHEN points."commit" = 'unknown' THEN 'unknown commit'
        WHEN dirty THEN 'uncommitted changes'
        WHEN commits."commit" IS NULL THEN 'not described by git yet'
        WHEN NOT reachable THEN 'unreachable: history was rewritten'
        ELSE 'placed'
    END AS placement,
    commits.subject, measured_at, points.pairs
FROM points
JOIN run_starts USING (run_id)
LEFT JOIN commits ON commits."commit" = points."commit"
LEFT JOIN verdicts ON verdicts.run_id = points.run_id AND verdicts.workload = points.workload
    AND verdicts.metric = points.metric AND verdicts.level = points.level AND verdicts.leg = 'ratio';
