-- What was measured, planned or offered and reaches no ratio, and why? Whatever is not here stands in target_ratios.
-- run_id: the run; NULL for a file that is no record
-- measurement: the plan's name for it, or the file
-- attempt: number of the attempt; NULL where there was none
-- record_id: the record; NULL where there is none
-- reason: why it reaches no ratio
CREATE VIEW exclusions AS
SELECT records.run_id, measurement, records.attempt, records.record_id,
    CASE
        WHEN legs.record_id IS NOT NULL THEN 'pair invalid: ' || pairs.reason
        WHEN kind_pairs THEN 'another attempt counts'
        ELSE 'kind ' || records.kind || ' makes no ratio'
    END AS reason
FROM (SELECT *, kind IN ('latency', 'throughput') AS kind_pairs FROM records) AS records
LEFT JOIN legs ON legs.record_id = records.record_id
LEFT JOIN (
    SELECT serial_record_id AS record_id, valid, reason FROM pairs
    UNION ALL SELECT batch_record_id, valid, reason FROM pairs
) AS pairs ON pairs.record_id = records.record_id
WHERE legs.record_id IS NULL OR NOT pairs.valid
UNION ALL
SELECT planned.run_id, planned.measurement, NULL, NULL, 'planned, never measured'
FROM planned
LEFT JOIN (SELECT DISTINCT run_id, measurement FROM records) AS measured USING (run_id, measurement)
WHERE planned.stage = 1 AND measured.measurement IS NULL
UNION ALL
SELECT NULL, path, NULL, NULL, reason FROM set_aside;
