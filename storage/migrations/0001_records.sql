-- What was measured: the raw records as rows. Instants are UTC, durations seconds, sizes bytes. Absent is NULL, never 0.

CREATE TABLE schema_migrations ( -- The migrations this store has been through
    version INTEGER PRIMARY KEY, -- number of the migration
    name VARCHAR NOT NULL, -- its file
    paceline_version VARCHAR NOT NULL -- the paceline that applied it
);

CREATE TABLE schema_views ( -- One row: which texts the views were made from
    sha256 VARCHAR NOT NULL -- digest of all view files
);

CREATE TABLE environments ( -- Where measurements ran, one row for each distinct description
    environment_id VARCHAR PRIMARY KEY, -- digest of the row
    hostname VARCHAR NOT NULL, -- name of the host
    fingerprint VARCHAR NOT NULL, -- digest of what makes a machine: processors, memory, driver, compiler, flags
    machine JSON NOT NULL, -- processors, cores, quota, memory, kernel, compiler, flags, accelerators
    packages JSON NOT NULL -- versions of the Python packages
);

CREATE TABLE series ( -- What may be drawn as one line: same machine, checkpoint, workload, ranks, devices and options
    series_id VARCHAR PRIMARY KEY, -- digest of the row
    fingerprint VARCHAR NOT NULL, -- machine, see environments
    checkpoint_digest VARCHAR NOT NULL, -- digest of the checkpoint; its name where the engine never loaded it
    workload VARCHAR NOT NULL, -- name of the workload
    tp INTEGER NOT NULL, -- tensor-parallel ranks
    devices VARCHAR NOT NULL, -- devices asked for
    threads INTEGER NOT NULL, -- threads asked for, 0: as many as the engine chooses
    context INTEGER NOT NULL, -- positions a slot holds
    slots INTEGER, -- slots, where other than the rule max(8, level); NULL by the rule and in serial mode
    prompt_tokens INTEGER NOT NULL, -- tokens of each prompt
    new_tokens INTEGER NOT NULL, -- tokens generated for each prompt
    warmup INTEGER NOT NULL, -- rounds dropped
    runs INTEGER NOT NULL, -- rounds kept
    options JSON NOT NULL -- further options that define the workload
);

CREATE TABLE records ( -- One measurement: one engine process, one attempt
    record_id VARCHAR PRIMARY KEY, -- 32 hex digits
    digest VARCHAR NOT NULL, -- sha256 of the raw record
    run_id VARCHAR NOT NULL, -- the run it belongs to
    measurement VARCHAR NOT NULL, -- the plan's name for it
    status VARCHAR NOT NULL, -- ok, failed, timeout, killed, invalid
    kind VARCHAR NOT NULL, -- the measurement program
    workload VARCHAR NOT NULL, -- name of the workload
    mode VARCHAR NOT NULL, -- serial or batch
    level INTEGER NOT NULL, -- requests sent at once in a round
    pair INTEGER NOT NULL, -- number of the serial and batch pair within run, workload and level
    block INTEGER NOT NULL, -- block of pairs over the levels
    run_order INTEGER NOT NULL, -- position within the run, as executed
    attempt INTEGER NOT NULL, -- 1, or more after a retry
    slots INTEGER NOT NULL, -- slots asked for
    seed BIGINT NOT NULL, -- of the prompts
    checkpoint VARCHAR NOT NULL, -- checkpoint asked for: folder or synthetic:<shape>
    options JSON NOT NULL, -- options of kinds beside latency and throughput
    spec JSON NOT NULL, -- the whole specification, enough to replay it
    series_id VARCHAR NOT NULL, -- see series
    environment_id VARCHAR, -- see environments; NULL where the process died before it looked
    "commit" VARCHAR NOT NULL, -- of the engine under test, 40 hex digits or unknown
    dirty BOOLEAN NOT NULL, -- built from a tree with uncommitted changes
    tree VARCHAR NOT NULL, -- digest of engine/ and native/ as built
    started_at TIMESTAMP NOT NULL, -- UTC
    finished_at TIMESTAMP NOT NULL, -- UTC
    api_version INTEGER, -- of the engine under test
    build JSON, -- compiler, flags and the like of the native module
    module_sha256 VARCHAR, -- of the native module
    isa VARCHAR, -- kernel path the engine took
    checkpoint_digest VARCHAR, -- of the checkpoint as loaded
    load_s DOUBLE, -- loading of the checkpoint, seconds
    memory JSON, -- bytes by purpose
    peak_running INTEGER, -- most requests in slots at once
    peak_waiting INTEGER, -- most requests waiting at once
    steps BIGINT, -- forward passes
    prefill_s DOUBLE, -- seconds in passes with prompt tokens
    decode_s DOUBLE, -- seconds in passes that only decode
    host_before JSON, -- load, memory, processes, threads, clock before
    host_after JSON, -- the same afterwards
    invalid_because VARCHAR[] NOT NULL, -- reasons stated by the measurement, empty where it is good
    failure_type VARCHAR, -- kind of error
    failure_message VARCHAR, -- its text
    failure_log VARCHAR, -- log, relative to the run's folder
    source_file VARCHAR NOT NULL -- raw record, relative to the results folder where it lies in it
);

CREATE TABLE rounds ( -- One round of a measurement: all its requests sent at once. A record's rounds are written in its transaction
    record_id VARCHAR NOT NULL, -- see records
    round INTEGER NOT NULL, -- number within the process, warm-up included
    warmup BOOLEAN NOT NULL, -- dropped from every figure
    wall_s DOUBLE NOT NULL -- first request sent to last token, seconds
);

CREATE TABLE requests ( -- One request of a round
    record_id VARCHAR NOT NULL, -- see records
    round INTEGER NOT NULL, -- see rounds
    warmup BOOLEAN NOT NULL, -- the round is a warm-up
    request INTEGER NOT NULL, -- number within the round
    prompt_tokens INTEGER NOT NULL, -- tokens of the prompt
    output_tokens INTEGER NOT NULL, -- tokens generated
    e2el_s DOUBLE NOT NULL, -- sent to last token, seconds
    ttft_s DOUBLE, -- sent to first token, seconds; NULL where there is no boundary
    tpot_s DOUBLE, -- (e2el - ttft) / (output tokens - 1), seconds; NULL below two tokens
    queue_s DOUBLE, -- sent to admission, seconds
    itl_s DOUBLE[] NOT NULL, -- gaps between tokens, seconds
    finish_reason VARCHAR NOT NULL, -- length, stop, cancelled, closed, error
    tokens_sha256 VARCHAR NOT NULL -- of the generated ids
);

CREATE TABLE process_figures ( -- One row for each measurement with kept rounds: the figures of its process
    record_id VARCHAR PRIMARY KEY, -- see records
    rounds INTEGER NOT NULL, -- kept rounds
    requests INTEGER NOT NULL, -- requests in them
    completed INTEGER NOT NULL, -- of these, finished by length or stop
    prompt_tokens BIGINT NOT NULL, -- sum over the kept rounds
    output_tokens BIGINT NOT NULL, -- sum over the kept rounds
    wall_s DOUBLE NOT NULL, -- mean wall of a round, seconds
    wall_sum_s DOUBLE NOT NULL, -- summed wall, seconds
    wall_cv DOUBLE, -- standard deviation / mean of the walls; NULL for one round
    e2el_mean_s DOUBLE, -- mean over completed requests, seconds
    ttft_mean_s DOUBLE, -- mean over completed requests that have it, seconds
    tpot_mean_s DOUBLE, -- mean over completed requests that have it, seconds
    finish_spread_s DOUBLE, -- mean over rounds of last finish - first finish, seconds
    request_throughput DOUBLE, -- completed requests / summed wall, requests/s
    output_throughput DOUBLE, -- output tokens / summed wall, tokens/s
    tokens_sha256 VARCHAR NOT NULL -- digest over the kept requests' digests in order: equal where both legs said the same
);

CREATE TABLE process_latencies ( -- Distribution of one latency over the completed requests of the kept rounds of one process
    record_id VARCHAR NOT NULL, -- see records
    metric VARCHAR NOT NULL, -- ttft_s, tpot_s, itl_s (gaps, pooled) or e2el_s
    samples INTEGER NOT NULL, -- values that went in
    mean DOUBLE NOT NULL, -- seconds
    p50 DOUBLE NOT NULL, -- median, seconds
    p90 DOUBLE NOT NULL, -- 90th percentile, seconds
    p95 DOUBLE NOT NULL, -- 95th percentile, seconds
    p99 DOUBLE NOT NULL, -- 99th percentile, seconds
    maximum DOUBLE NOT NULL -- largest, seconds
);

CREATE TABLE step_rows ( -- How many decode steps had how many rows
    record_id VARCHAR NOT NULL, -- see records
    rows INTEGER NOT NULL, -- rows of the step
    steps BIGINT NOT NULL -- decode steps with that many
);

CREATE TABLE named_values ( -- Figures of other kinds, one a row
    record_id VARCHAR NOT NULL, -- see records
    name VARCHAR NOT NULL, -- name with its unit
    value DOUBLE NOT NULL -- the figure
);

CREATE TABLE set_aside ( -- Files that were offered and not taken
    path VARCHAR PRIMARY KEY, -- the file, relative to the results folder where it lies in it
    reason VARCHAR NOT NULL -- what is wrong with it
);
