-- Which attempt counts for each leg (mode) of each pair? The last in which both were ok; else, of legs apart, the last ok, or the last.
-- run_id: the run
-- commit: of the engine under test
-- dirty: built from a tree with uncommitted changes
-- tree: digest of the sources as built
-- workload: name of the workload
-- kind: latency or throughput
-- level: requests sent at once
-- pair: number of the pair
-- mode: serial or batch
-- record_id: the record that counts
-- series_id: series of that record
-- fingerprint: of the machine; NULL where the process died before it looked
-- checkpoint_digest: of the checkpoint as loaded
-- status: of that record
-- attempt: of that record
-- attempts: how many were made
-- trouble: why it cannot count, NULL where it can
-- rounds: kept rounds
-- completed: completed requests in them
-- output_tokens: tokens generated in them
-- tokens_sha256: digest of what was generated
-- wall_s: mean wall of a round, seconds
-- e2el_mean_s: mean request latency, seconds
-- ttft_mean_s: mean time to first token, seconds
-- tpot_mean_s: mean time per output token, seconds
-- finish_spread_s: mean of last finish - first finish, seconds
-- request_throughput: requests/s
-- output_throughput: tokens/s
-- started_at: UTC
CREATE VIEW legs AS
WITH tried AS (
    SELECT records.*,
        count(*) FILTER (WHERE status = 'ok') OVER (PARTITION BY run_id, kind, workload, level, pair, attempt) = 2 AS whole,
        record_id IN (SELECT record_id FROM named_values WHERE name = 'turns_waited_s') AS in_turns
    FROM records
    WHERE kind IN ('latency', 'throughput')
),
ranked AS (
    SELECT tried.*,
        count(*) OVER leg AS attempts,
        row_number() OVER (
            PARTITION BY run_id, kind, workload, level, pair, mode
            ORDER BY whole DESC, (status = 'ok' AND NOT in_turns) DESC, attempt DESC, started_at DESC, record_id
        ) AS place
    FROM tried
    WINDOW leg AS (PARTITION BY run_id, kind, workload, level, pair, mode)
)
SELECT run_id, "commit", dirty, tree, workload, kind, level, pair, mode, record_id, series_id, environments.fingerprint,
    checkpoint_digest, status, attempt, attempts,
    CASE
        WHEN status <> 'ok' THEN mode || ' leg ' || status || coalesce(': ' || failure_type || ': ' || failure_message, '')
            || CASE WHEN len(invalid_because) > 0 THEN ': ' || array_to_string(invalid_because, '; ') ELSE '' END
        WHEN len(invalid_because) > 0 THEN mode || ' leg invalid: ' || array_to_string(invalid_because, '; ')
        WHEN figures.rounds IS NULL THEN mode || ' leg has no kept round'
        WHEN completed = 0 THEN mode || ' leg completed no request'
        WHEN completed < requests THEN mode || ' leg completed ' || completed || ' of ' || requests || ' requests'
        WHEN request_throughput IS NULL OR e2el_mean_s = 0 THEN mode || ' leg took no time'
    END AS trouble,
    figures.rounds, completed, output_tokens, tokens_sha256, wall_s, e2el_mean_s, ttft_mean_s, tpot_mean_s, finish_spread_s,
    request_throughput, output_throughput, started_at
FROM ranked
LEFT JOIN process_figures AS figures USING (record_id)
LEFT JOIN environments USING (environment_id)
WHERE place = 1;
