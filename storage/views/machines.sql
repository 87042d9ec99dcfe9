-- Which machines measured, and when? One row a fingerprint; the description is that of its latest measurement.
-- fingerprint: digest of what makes a machine
-- hostnames: names it went by
-- cpu_model: processor
-- cores: cores
-- memory_bytes: memory
-- kernel: operating system's kernel
-- compiler: compiler of the engine
-- flags: compile flags
-- machine: the whole description
-- series: how many series it has
-- runs: how many runs
-- measurements: how many records
-- first_seen: first measurement, UTC
-- last_seen: last measurement, UTC
CREATE VIEW machines AS
SELECT fingerprint, list_sort(list_distinct(list(hostname))) AS hostnames,
    arg_max(machine ->> 'cpu_model', started_at) AS cpu_model, TRY_CAST(arg_max(machine ->> 'cores', started_at) AS INTEGER) AS cores,
    TRY_CAST(arg_max(machine ->> 'memory_bytes', started_at) AS BIGINT) AS memory_bytes,
    arg_max(machine ->> 'kernel', started_at) AS kernel, arg_max(machine ->> 'compiler', started_at) AS compiler,
    arg_max(machine ->> 'flags', started_at) AS flags, arg_max(machine, started_at) AS machine,
    count(DISTINCT series_id) AS series, count(DISTINCT run_id) AS runs, count(*) AS measurements,
    min(started_at) AS first_seen, max(started_at) AS last_seen
FROM records JOIN environments USING (environment_id)
GROUP BY fingerprint;
