# SPDX-License-Identifier: Apache-2.0
#
# Functions of scripts/test and scripts/verify-all: steps with their output, times and counts. To be sourced in the
# root of the checkout, with $logs set to a folder.

# step NAME COMMAND…: runs a step and shows its output. Goes on after a failure, so that one run shows all failures.
step() {
  echo "=== $1: ${*:2}"
  run_step "$@" | tee "$logs/$1.log"
  show_result "$1"
}

# beside NAME COMMAND…: as step, for a lane of steps that runs beside another one: shows the output at the end.
beside() {
  run_step "$@" > "$logs/$1.log"
  { echo "=== $1 (beside other steps): ${*:2}"; cat "$logs/$1.log"; show_result "$1"; } > "$logs/$1.shown"
  cat "$logs/$1.shown"
}

# Runs a step with all of its output, and notes its order, exit status and times (seconds: elapsed, of processors).
run_step() {
  local name=$1 status=0 TIMEFORMAT='%R %U %S'
  shift
  { time "$@" 2>&1 || status=$?; } 2> "$logs/$name.times"
  echo "$status" > "$logs/$name.status"
  echo "$name" >> "$logs/order"
}

show_result() {
  if passed "$1"; then echo "--- $1: ok"; else echo "--- $1: FAILED"; fi
}

# passed NAME: whether a step has passed.
passed() {
  [ "$(cat "$logs/$1.status" 2> /dev/null)" = 0 ]
}

# needs NAME COMMAND…: as step; if it fails, nothing else can be run.
needs() {
  step "$@"
  passed "$1" || cannot_go_on "$1"
}

cannot_go_on() {
  echo "cannot go on without: $1"
  summary || true
  exit 1
}

# why NAME: the lines of a failed step's log that say what is wrong, each once, at most 20; the last 5 if there are none.
why() {
  awk -v name="$1" '
    { last[NR % 5] = $0 }
    # The line after the place of a panic is its message.
    /^(finding|problem|error): / || /^error\[/ || /^FAILED / || /panicked at / || /^test .* FAILED$/ || panicked {
      if (!seen[$0]++ && ++count <= 20) print name ": " $0
    }
    { panicked = /panicked at / }
    END {
      if (count > 20) print name ": " count - 20 " more"
      for (nth = NR - 4; !count && nth <= NR; nth++) if (nth > 0) print name ": " last[nth % 5]
    }' "$logs/$1.log"
}

# summary: a table of times, what is wrong in failed steps, the lines with counts, and the sum of all counts as last line.
# The exit status is 1 if a step failed.
#
# Counted are the results of cargo's tests, 'N passed, N failed, N skipped', and the unit tests of the hooks. A test that
# one step ignores and another one runs counts once, as run; one that no step runs is skipped, and named.
summary() {
  local failed=() name
  printf '\n%-28s %8s %8s  %s\n' step elapsed CPU result
  while read -r name; do
    passed "$name" || failed+=("$name")
    awk -v name="$name" -v result="$(passed "$name" && echo ok || echo FAILED)" '
      END { printf "%-28s %6.0f s %6.0f s  %s\n", name, $1, $2 + $3, result }' "$logs/$name.times"
  done < "$logs/order"
  awk -v elapsed="$SECONDS" '{ cpu += $2 + $3 } END { printf "%-28s %6.0f s %6.0f s\n\n", "all", elapsed, cpu }' "$logs"/*.times
  for name in "${failed[@]}"; do why "$name"; done
  xargs -a "$logs/order" -I{} cat "$logs/{}.log" | awk -v steps="${#failed[@]}" -v names="${failed[*]:-}" '
    / Running .*\(.*\)$/ || /^ +Doc-tests / { program = $0; sub(/-[0-9a-f]+\)$/, "", program); sub(/^.*[\/ ]/, "", program) }
    /^test .* \.\.\. ignored/ { if (!((program, $2) in run)) ignored[program, $2] = program "::" $2 }
    /^test .* \.\.\. (ok|FAILED)$/ { run[program, $2]; delete ignored[program, $2] }
    /^test result: / { gsub(";", ""); passed += $4; failed += $6 }
    /^(layout|graphs|checker|oracle|oat|instructions|balance|stress|device|detectors|perfetto): .* (differences|failed|problems|findings)$/ { print }
    /^events: .* pairs, .* missing$/ || /^samples: .* error .* %$/ || /^vm: [0-9]+ checks, / { print }
    /^causality: .* edges, .* wrong$/ || /^cases: [0-9]+ runs, / { print }
    /^unit: [0-9]+ tests passed/ { passed += $2; failed += $5 }
    /^[0-9]+ passed, [0-9]+ failed/ { gsub(",", ""); passed += $1; failed += $3; skipped += $5 }
    /^skipped / { print }
    END {
      for (test in ignored) { print "skipped " ignored[test]; skipped++ }
      if (steps) print "failed steps: " names
      printf "%d passed, %d failed, %d skipped\n", passed, failed + (steps && !failed), skipped
    }'
  [ ${#failed[@]} -eq 0 ]
}
