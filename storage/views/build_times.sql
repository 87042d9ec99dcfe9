-- How long did builds take, and which failed?
-- commit: of the source
-- dirty: with uncommitted changes
-- created_at: UTC
-- status: ok or failed
-- seconds: configure, compile, install; NULL where it came from the cache
-- compiler: compiler and version
-- flags: compile flags
-- failure: the error, NULL where it succeeded
-- run_id: the run that asked for it
-- build_id: the build
CREATE VIEW build_times AS
SELECT "commit", dirty, created_at, status, seconds, compiler, flags, failure, run_id, build_id FROM builds;
