-- How do the two legs of each pair compare, and may they be compared?
-- run_id: the run
-- commit: of the engine under test
-- dirty: built from a tree with uncommitted changes
-- workload: name of the workload
-- kind: latency or throughput
-- series: what may be drawn as one line
-- level: requests sent at once
-- pair: number of the pair
-- serial_record_id: record of the serial leg
-- batch_record_id: record of the batch leg
-- valid: the pair counts
-- broken: something failed that no restless machine explains
-- reason: why it does not count, empty where it does
-- same_tokens: both legs generated the same tokens
-- serial_e2el_s: mean request latency, serial, seconds
-- batch_e2el_s: mean request latency, batch, seconds
-- serial_ttft_s: mean time to first token, serial, seconds
-- batch_ttft_s: mean time to first token, batch, seconds
-- serial_throughput: requests/s, serial
-- batch_throughput: requests/s, batch
CREATE VIEW pairs AS
WITH lost AS (
    SELECT run_id, workload, string_agg(reason, '; ' ORDER BY kind) AS lost FROM parity WHERE NOT held GROUP BY run_id, workload
),
joined AS (
    SELECT run_id, workload, kind, level, pair,
        coalesce(batch."commit", serial."commit") AS "commit",
        coalesce(batch.dirty, false) OR coalesce(serial.dirty, false) AS dirty,
        coalesce(batch.series_id, serial.series_id) AS series,
        serial.record_id AS serial_record_id, batch.record_id AS batch_record_id,
        concat_ws('; ',
            CASE WHEN serial.record_id IS NULL THEN 'serial leg was not measured' ELSE serial.trouble END,
            CASE WHEN batch.record_id IS NULL THEN 'batch leg was not measured' ELSE batch.trouble END,
            CASE WHEN serial.trouble IS NULL AND batch.trouble IS NULL AND serial.output_tokens <> batch.output_tokens
                THEN 'output tokens differ: serial ' || serial.output_tokens || ', batch ' || batch.output_tokens END,
            CASE WHEN serial.fingerprint <> batch.fingerprint THEN 'the legs ran on two machines' END,
            CASE WHEN serial.checkpoint_digest <> batch.checkpoint_digest THEN 'the legs loaded two checkpoints' END,
            CASE WHEN serial.tree <> batch.tree THEN 'the legs ran two builds' END,
            lost
        ) AS reason,
        lost,
        coalesce(serial.status = 'invalid' OR (serial.status = 'ok' AND serial.trouble LIKE 'serial leg invalid%'), false) AS serial_restless,
        coalesce(batch.status = 'invalid' OR (batch.status = 'ok' AND batch.trouble LIKE 'batch leg invalid%'), false) AS batch_restless,
        serial.trouble AS serial_trouble, batch.trouble AS batch_trouble,
        serial.tokens_sha256 = batch.tokens_sha256 AS same_tokens,
        serial.e2el_mean_s AS serial_e2el_s, batch.e2el_mean_s AS batch_e2el_s,
        serial.ttft_mean_s AS serial_ttft_s, batch.ttft_mean_s AS batch_ttft_s,
        serial.request_throughput AS serial_throughput, batch.request_throughput AS batch_throughput
    FROM (SELECT * FROM legs WHERE mode = 'serial') AS serial
    FULL JOIN (SELECT * FROM legs WHERE mode = 'batch') AS batch USING (run_id, workload, kind, level, pair)
    LEFT JOIN lost USING (run_id, workload)
)
SELECT run_id, "commit", dirty, workload, kind, series, level, pair, serial_record_id, batch_record_id,
    reason = '' AS valid,
    reason <> '' AND NOT (
        lost IS NULL AND (serial_restless OR batch_restless)
        AND (serial_trouble IS NULL OR serial_restless) AND (batch_trouble IS NULL OR batch_restless)
        AND serial_record_id IS NOT NULL AND batch_record_id IS NOT NULL
    ) AS broken,
    reason, same_tokens, serial_e2el_s, batch_e2el_s, serial_ttft_s, batch_ttft_s, serial_throughput, batch_throughput
FROM joined;
