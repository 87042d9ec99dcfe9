-- What measurements belong to: runs, verdicts, builds, commits.

CREATE TABLE runs ( -- One run of the flow, as it described itself in run.json
    run_id VARCHAR PRIMARY KEY, -- UTC stamp and short id
    "commit" VARCHAR, -- of the engine under test
    workload VARCHAR, -- name of the workload
    started_at TIMESTAMP, -- UTC
    finished_at TIMESTAMP, -- UTC; NULL while it runs, or where it was killed
    exit_code INTEGER, -- 0 all targets pass, 1 one fails, 3 undecided, 2 broken
    plan JSON -- the plan as it was made
);

CREATE TABLE planned ( -- What a run's plan asked for
    run_id VARCHAR NOT NULL, -- see runs
    measurement VARCHAR NOT NULL, -- the plan's name for it
    workload VARCHAR NOT NULL, -- name of the workload
    mode VARCHAR NOT NULL, -- serial or batch
    level INTEGER NOT NULL, -- requests sent at once
    pair INTEGER NOT NULL, -- number of the pair
    stage INTEGER NOT NULL -- look at which it is due, counted from 1; pairs of later looks are measured only where a verdict needs them
);

CREATE TABLE verdicts ( -- One target of one run. Derived: a rebuild recomputes them
    run_id VARCHAR NOT NULL, -- see runs
    workload VARCHAR NOT NULL, -- name of the workload
    metric VARCHAR NOT NULL, -- name of the ratio
    level INTEGER NOT NULL, -- requests sent at once
    name VARCHAR NOT NULL, -- name of the target
    leg VARCHAR NOT NULL, -- ratio, serial or batch: whose value is judged
    direction VARCHAR, -- >= or <=
    target DOUBLE, -- the bound, in the unit; NULL where it is relative to a baseline that is not there yet
    unit VARCHAR, -- of the bound
    status VARCHAR NOT NULL, -- PASS, FAIL, INCONCLUSIVE, ERROR
    ratio DOUBLE, -- the estimate, in the unit
    low DOUBLE, -- lower end of its interval; NULL for a point
    high DOUBLE, -- upper end of its interval; NULL for a point
    confidence DOUBLE, -- of the interval, 0 to 1
    mde DOUBLE, -- smallest effect that would be seen, as a fraction
    pairs INTEGER, -- pairs that counted
    point BOOLEAN NOT NULL, -- no interval: too few pairs
    reason VARCHAR NOT NULL, -- why, in words
    flags VARCHAR[] NOT NULL, -- what a reader must know beside the status
    excluded VARCHAR[] NOT NULL, -- pairs set aside, with why
    waived VARCHAR NOT NULL, -- because of what and until when a FAIL is waived; empty where it is not
    details JSON NOT NULL, -- whatever else the verdict says
    PRIMARY KEY (run_id, workload, metric, level, name)
);

CREATE TABLE builds ( -- One attempt to build the engine of a commit
    build_id VARCHAR PRIMARY KEY, -- digest of what went in
    run_id VARCHAR, -- the run that asked for it
    "commit" VARCHAR NOT NULL, -- of the source, 40 hex digits or unknown
    dirty BOOLEAN, -- with uncommitted changes
    tree VARCHAR, -- digest of engine/ and native/
    status VARCHAR NOT NULL, -- ok or failed
    seconds DOUBLE, -- configure, compile, install; NULL where it was taken from the cache
    created_at TIMESTAMP, -- UTC
    compiler VARCHAR, -- compiler and version
    flags VARCHAR, -- compile flags
    api_version INTEGER, -- of the engine
    module_sha256 VARCHAR, -- of the native module
    failure VARCHAR, -- the error, where it failed
    details JSON NOT NULL -- the whole build.json
);

CREATE TABLE commits ( -- What git says of the commits that were measured
    "commit" VARCHAR PRIMARY KEY, -- 40 hex digits
    author VARCHAR, -- name of the author
    author_date TIMESTAMP, -- UTC
    committed_at TIMESTAMP, -- UTC
    subject VARCHAR, -- first line of the message
    parents VARCHAR[], -- parents, in order
    reachable BOOLEAN NOT NULL, -- from any branch, tag or the head; false after rewritten history
    position INTEGER -- place in topological order over everything reachable, oldest 1; NULL where unreachable
);

CREATE TABLE branch_positions ( -- Where measured commits stand on each branch
    branch VARCHAR NOT NULL, -- name of the branch
    "commit" VARCHAR NOT NULL, -- see commits
    position INTEGER NOT NULL, -- place in the branch's topological order, oldest 1
    PRIMARY KEY (branch, "commit")
);
