# SPDX-License-Identifier: Apache-2.0
"""DuckDB reads the Parquet tables:

    PYTHONPATH=… python3 tables.py FOLDER…

with folders written by host/export/examples/readers.rs.
"""

import json
import sys
import traceback
from pathlib import Path

import duckdb

CHECKS_FAILED = 3
COSTS = (
    "woken_by UINTEGER, block_ns BIGINT, cpu_ns BIGINT, allocated_objects BIGINT, allocated_bytes BIGINT, "
    "minor_faults BIGINT, major_faults BIGINT, voluntary_switches BIGINT, involuntary_switches BIGINT"
)
TYPES = {
    "trace": "process VARCHAR, pid UINTEGER, uid UINTEGER, isa VARCHAR, reason VARCHAR, raised_by UINTEGER, "
    "taken_boottime_ns BIGINT, taken_monotonic_ns BIGINT, taken_realtime_ns BIGINT, start_ns BIGINT, end_ns BIGINT",
    "threads": "thread UINTEGER, tid UINTEGER, thread_name VARCHAR, start_ns BIGINT, end_ns BIGINT, points BIGINT, "
    "overwritten_slots BIGINT, open_starts BIGINT, open_ends BIGINT",
    "methods": "method UINTEGER, method_name VARCHAR, class VARCHAR, name VARCHAR, signature VARCHAR, "
    "source_file VARCHAR, address UBIGINT",
    "slices": "slice BIGINT, thread UINTEGER, start_ns BIGINT, duration_ns BIGINT, self_ns BIGINT, method UINTEGER, "
    "depth UINTEGER, parent BIGINT, open_start BOOLEAN, open_end BOOLEAN, by_exception BOOLEAN, native BOOLEAN, "
    "sampled BOOLEAN, start_error_ns BIGINT, end_error_ns BIGINT, " + COSTS + ", calls_made BIGINT, self_cpu_ns BIGINT",
    "missing": "what VARCHAR, count BIGINT",
    "events": "thread UINTEGER, event BIGINT, at_ns BIGINT, kind VARCHAR, category VARCHAR, a UBIGINT, b UBIGINT, "
    "c UBIGINT, d UBIGINT, fields VARCHAR",
    "spans": "thread UINTEGER, kind VARCHAR, begin_event BIGINT, end_event BIGINT, start_ns BIGINT, duration_ns BIGINT, "
    + COSTS,
    "pairs": "kind VARCHAR, from_thread UINTEGER, from_event BIGINT, to_thread UINTEGER, to_event BIGINT",
}
SLICES = """
    select s.thread, coalesce(method_name, '<entered before the trace>'), s.start_ns, duration_ns, depth,
           parent - first, open_start, open_end, by_exception, self_ns
    from slices s left join methods using (method)
    join (select thread, min(slice) as first from slices group by thread) using (thread) order by slice"""
THREADS = """
    select tid, thread_name, count(slice),
           (select count(*) from events where events.thread = threads.thread)
    from threads left join slices using (thread) group by thread, tid, thread_name order by thread"""


def same(what, expected, got):
    if expected != got:
        raise AssertionError(f"{what}: the decoder says {expected!r:.300}, the reader says {got!r:.300}")


def calls_of(number, thread):
    """The calls of a thread, in the form of the rows of SLICES."""
    own = [call["end"] - call["start"] for call in thread["calls"]]
    for call in thread["calls"]:
        if call["parent"] is not None:
            own[call["parent"]] -= call["end"] - call["start"]
    for call, self_ns in zip(thread["calls"], own):
        yield (number, call["name"], call["start"], call["end"] - call["start"], call["depth"], call["parent"],
               call["open_start"], call["open_end"], call["by_exception"], self_ns)


def check(folder):
    expected = json.loads((folder / "expected.json").read_text())
    db = duckdb.connect()
    for table, types in TYPES.items():
        file = str(folder / "t.parquet" / f"{table}.parquet").replace("'", "''")
        db.execute(f"create view {table} as select * from '{file}'")
        columns = db.execute(f"describe {table}").fetchall()
        same(f"types of {table}", types, ", ".join(f"{c[0]} {c[1]}" for c in columns))
    same("trace", [(expected["process"], expected["pid"], expected["reason"], int(expected["taken_realtime"]))],
         db.execute("select process, pid, reason, taken_realtime_ns from trace").fetchall())
    same("methods", (expected["methods"],), db.execute("select count(*) from methods").fetchone())
    same("threads", [(t["tid"], t["name"], len(t["calls"]), t["events"]) for t in expected["threads"]],
         db.execute(THREADS).fetchall())
    wanted = [call for i, thread in enumerate(expected["threads"]) for call in calls_of(i, thread)]
    got = db.execute(SLICES).fetchall()
    for i, (call, row) in enumerate(zip(wanted, got)):
        same(f"call {i}", call, row)
    same("calls", len(wanted), len(got))
    return f"{len(got)} calls one by one, {len(TYPES)} tables"


def main():
    failed = 0
    for folder in map(Path, sys.argv[1:]):
        try:
            print(f"ok      DuckDB: {folder.name}: {check(folder)}")
        except Exception:
            failed += 1
            print(f"FAILED  DuckDB: {folder.name}: {traceback.format_exc()}")
    return CHECKS_FAILED if failed else 0


if __name__ == "__main__":
    sys.exit(main())
