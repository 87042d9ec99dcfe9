-- Did batch agree with serial, and the engine with its reference, before anything was timed? Where not, no pair of the run counts.
-- run_id: the run
-- workload: name of the workload
-- kind: parity (serial against batch, bit by bit) or reference (engine against torch)
-- attempts: how often it was looked at
-- requests: requests compared; NULL where none was
-- different: of these, requests that differ, in the attempt that shows most
-- held: false where a request differs, or where parity could not be looked at; NULL where there was no reference to ask
-- reason: why it does not hold, empty where it does
CREATE VIEW parity AS
WITH checked AS (
    SELECT records.run_id, workload, kind, attempt, status,
        max(value) FILTER (WHERE name = kind || '_requests') AS requests,
        max(value) FILTER (WHERE name = kind || '_requests_different') AS different,
        any_value(coalesce(failure_message, array_to_string(invalid_because, '; '))) AS message
    FROM records LEFT JOIN named_values USING (record_id)
    WHERE kind IN ('parity', 'reference')
    GROUP BY records.record_id, records.run_id, workload, kind, attempt, status
),
found AS (
    SELECT run_id, workload, kind, count(*) AS attempts, max(requests)::BIGINT AS requests, max(different)::BIGINT AS different,
        CASE
            WHEN max(different) > 0 THEN false
            WHEN bool_or(status = 'ok') THEN true
            WHEN kind = 'parity' THEN false
        END AS held,
        coalesce(arg_max(message, different) FILTER (WHERE different > 0), arg_max(message, attempt)) AS message
    FROM checked GROUP BY run_id, workload, kind
)
SELECT run_id, workload, kind, attempts, requests, different, held,
    CASE WHEN held THEN '' ELSE kind || ' does not hold: ' || coalesce(message, 'no reason recorded') END AS reason
FROM found;
