-- Builds say when a run asked for them and whether they were there already.

ALTER TABLE builds ADD COLUMN asked_at TIMESTAMP;
ALTER TABLE builds ADD COLUMN cached BOOLEAN;
UPDATE builds SET asked_at = created_at, cached = (status = 'ok' AND seconds IS NULL);
COMMENT ON COLUMN builds.asked_at IS 'when the run asked for it, UTC';
COMMENT ON COLUMN builds.cached IS 'nothing was compiled: it was there already';
COMMENT ON COLUMN builds.seconds IS 'compiling; up to the failure, where it failed; NULL where nothing was compiled';
COMMENT ON COLUMN builds.created_at IS 'when what is used was made, UTC; NULL where it failed';
