-- How long did builds take, and which failed?
-- commit: of the source
-- dirty: with uncommitted changes
-- asked_at: when the run asked for it, UTC
-- status: ok or failed
-- cached: nothing was compiled, it was there already
-- seconds: compiling; up to the failure, where it failed; NULL where nothing was compiled
-- created_at: when what is used was made, UTC; NULL where it failed
-- compiler: compiler and version
-- flags: compile flags
-- failure: the error, NULL where it succeeded
-- run_id: the run that asked for it
-- build_id: the build
CREATE VIEW build_times AS
SELECT "commit", dirty, asked_at, status, cached, seconds, created_at, compiler, flags, failure, run_id, build_id FROM builds;
