-- Which commits cannot be built? Those whose newest attempt failed; trees with uncommitted changes are left out.
-- commit: of the source
-- position: place in topological order, oldest 1; NULL for a commit without a place
-- subject: first line of its message; NULL where git has not told
-- attempts: how often its build failed
-- asked_at: the newest attempt, UTC
-- seconds: up to the failure
-- failure: the error
-- run_id: the run of the newest attempt
CREATE VIEW build_failures AS
WITH ranked AS (
    SELECT *, row_number() OVER (PARTITION BY "commit" ORDER BY asked_at DESC NULLS LAST, build_id) AS place,
        count(*) FILTER (WHERE status = 'failed') OVER (PARTITION BY "commit") AS attempts
    FROM builds WHERE NOT coalesce(dirty, false) AND "commit" <> 'unknown'
)
SELECT ranked."commit", CASE WHEN reachable THEN position END AS position, subject, attempts, asked_at, seconds, failure, run_id
FROM ranked LEFT JOIN commits ON commits."commit" = ranked."commit"
WHERE place = 1 AND status = 'failed';
