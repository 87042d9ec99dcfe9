-- The figures of each process in `batch` (a table of record_ids), from its kept rounds. Needs nothing else, so that ingest and rebuild agree.
INSERT INTO process_figures
WITH kept AS (
    SELECT * FROM requests WHERE NOT warmup AND record_id IN (SELECT record_id FROM batch)
),
by_round AS (
    SELECT record_id, round, max(e2el_s) - min(e2el_s) AS spread_s
    FROM kept WHERE finish_reason IN ('length', 'stop') GROUP BY record_id, round
),
spreads AS (SELECT record_id, avg(spread_s) AS finish_spread_s FROM by_round GROUP BY record_id),
walls AS (
    SELECT record_id, count(*) AS rounds, avg(wall_s) AS wall_s, sum(wall_s) AS wall_sum_s,
        CASE WHEN count(*) > 1 AND avg(wall_s) > 0 THEN stddev_samp(wall_s) / avg(wall_s) END AS wall_cv
    FROM rounds WHERE NOT warmup AND record_id IN (SELECT record_id FROM batch)
    GROUP BY record_id
),
sums AS (
    SELECT record_id, count(*) AS requests,
        count(*) FILTER (WHERE finish_reason IN ('length', 'stop')) AS completed,
        sum(prompt_tokens) AS prompt_tokens, sum(output_tokens) AS output_tokens,
        avg(e2el_s) FILTER (WHERE finish_reason IN ('length', 'stop')) AS e2el_mean_s,
        avg(ttft_s) FILTER (WHERE finish_reason IN ('length', 'stop')) AS ttft_mean_s,
        avg(tpot_s) FILTER (WHERE finish_reason IN ('length', 'stop')) AS tpot_mean_s,
        sha256(string_agg(tokens_sha256, ' ' ORDER BY round, request)) AS tokens_sha256
    FROM kept GROUP BY record_id
)
SELECT walls.record_id, rounds, coalesce(requests, 0), coalesce(completed, 0), coalesce(prompt_tokens, 0), coalesce(output_tokens, 0),
    wall_s, wall_sum_s, wall_cv, e2el_mean_s, ttft_mean_s, tpot_mean_s, finish_spread_s,
    CASE WHEN wall_sum_s > 0 THEN coalesce(completed, 0) / wall_sum_s END AS request_throughput,
    CASE WHEN wall_sum_s > 0 THEN coalesce(output_tokens, 0) / wall_sum_s END AS output_throughput,
    coalesce(tokens_sha256, '')
FROM walls
LEFT JOIN sums USING (record_id)
LEFT JOIN spreads USING (record_id)
