-- What people decided about verdicts, and the changes that were told.

CREATE TABLE decisions ( -- A commit accepted as the new baseline, or a target waived until a day. Raw truth in decisions.json
    kind VARCHAR NOT NULL, -- acceptance or waiver
    "commit" VARCHAR, -- the commit accepted; NULL for a waiver
    target VARCHAR, -- name of the target; NULL: the acceptance is for all
    until DATE, -- last day of the waiver; NULL for an acceptance
    because VARCHAR NOT NULL, -- why, in the person's words
    decided_at TIMESTAMP NOT NULL -- UTC: runs that began earlier know nothing of it
);

CREATE TABLE change_points ( -- Changes of a ratio's level that a run brought to light. Derived: a rebuild finds them again
    run_id VARCHAR NOT NULL, -- the run that told of it
    series VARCHAR NOT NULL, -- see series
    workload VARCHAR NOT NULL, -- name of the workload
    metric VARCHAR NOT NULL, -- name of the ratio
    level INTEGER NOT NULL, -- requests sent at once
    good VARCHAR NOT NULL, -- last measured commit before the change
    bad VARCHAR NOT NULL, -- first measured commit after it
    good_position INTEGER NOT NULL, -- place of the one, as it was then
    bad_position INTEGER NOT NULL, -- place of the other, as it was then
    step DOUBLE NOT NULL, -- new level / old level
    low DOUBLE NOT NULL, -- lower end of its interval
    high DOUBLE NOT NULL, -- upper end of its interval
    p DOUBLE NOT NULL -- of the test that found it
);
