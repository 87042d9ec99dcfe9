-- Were the slots really full? Evidence beside each throughput figure.
-- run_id: the run
-- workload: name of the workload
-- level: requests sent at once
-- pair: number of the pair
-- mode: serial or batch
-- record_id: the record that counts
-- slots: slots asked for
-- peak_running: most requests in slots at once
-- peak_waiting: most requests waiting at once
-- decode_steps: passes that only decode
-- mean_rows: rows of a decode step, mean
-- full_share: share of decode steps with as many rows as the level and the slots allow
-- prefill_share: share of the pass time spent in passes with prompt tokens
CREATE VIEW occupancy AS
WITH widths AS (
    SELECT record_id, sum(step_rows.steps) AS decode_steps, sum(step_rows.rows * step_rows.steps) / sum(step_rows.steps) AS mean_rows,
        sum(step_rows.steps) FILTER (WHERE step_rows.rows >= CASE WHEN mode = 'serial' THEN 1 ELSE least(level, slots) END)
            AS full_steps
    FROM step_rows JOIN records USING (record_id)
    GROUP BY record_id
)
SELECT legs.run_id, legs.workload, legs.level, legs.pair, legs.mode, record_id, slots, peak_running, peak_waiting,
    decode_steps::BIGINT AS decode_steps, mean_rows, coalesce(full_steps, 0) / decode_steps AS full_share,
    CASE WHEN prefill_s + decode_s > 0 THEN prefill_s / (prefill_s + decode_s) END AS prefill_share
FROM legs
JOIN records USING (record_id)
LEFT JOIN widths USING (record_id)
WHERE peak_running IS NOT NULL;
