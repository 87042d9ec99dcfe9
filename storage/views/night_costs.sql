-- What did each night cost, in minutes?
-- run_id: the run
-- started_at: first measurement, UTC
-- wall_minutes: first start to last finish
-- measuring_minutes: within measurements
-- serial_minutes: of these, serial mode
-- batch_minutes: of these, batch mode
-- loading_minutes: of these, loading checkpoints
-- lost_minutes: of these, attempts that reached no ratio
-- build_minutes: building engines
-- measurements: records of the run
CREATE VIEW night_costs AS
WITH spent AS (
    SELECT run_id, records.record_id, started_at, finished_at, mode, load_s,
        (epoch(finished_at - started_at) - coalesce(waited.value, 0)) / 60 AS minutes, -- not while the partner had its turn
        excluded.record_id IS NOT NULL AS lost
    FROM records
    LEFT JOIN named_values AS waited ON waited.record_id = records.record_id AND waited.name = 'turns_waited_s'
    LEFT JOIN (
        SELECT DISTINCT record_id FROM exclusions WHERE record_id IS NOT NULL AND reason NOT LIKE 'kind %'
    ) AS excluded ON excluded.record_id = records.record_id
),
building AS (SELECT run_id, sum(seconds) / 60 AS build_minutes FROM builds GROUP BY run_id)
SELECT run_id, min(started_at) AS started_at, epoch(max(finished_at) - min(started_at)) / 60 AS wall_minutes,
    sum(minutes) AS measuring_minutes, coalesce(sum(minutes) FILTER (WHERE mode = 'serial'), 0) AS serial_minutes,
    coalesce(sum(minutes) FILTER (WHERE mode = 'batch'), 0) AS batch_minutes, sum(load_s) / 60 AS loading_minutes,
    coalesce(sum(minutes) FILTER (WHERE lost), 0) AS lost_minutes, any_value(build_minutes) AS build_minutes, count(*) AS measurements
FROM spent LEFT JOIN building USING (run_id)
GROUP BY run_id;
