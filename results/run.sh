#!/usr/bin/env bash
# Everything behind the tables of README and docs: data, runs, raw records. Hours on two cores; finished parts are kept.
#   results/run.sh            all of it
#   results/run.sh CarRun     one task
# Data and runs go to runs/; what is small (settings, episode records, dataset profiles) is copied to results/.
set -euo pipefail
cd "$(dirname "$0")/.."
lspc=${LSPC:-.venv/bin/lspc}

keep() { # keep TASK NAME: the settings and the raw records of a run
  mkdir -p "results/$1/$2"
  cp "runs/$1/$2/config.json" "runs/$1/$2/evaluations.jsonl" "results/$1/$2/"
}

for task in ${1:-BallCircle BallRun CarRun CarCircle}; do
  data=runs/$task/data.hdf5
  warmup=0
  [ "$task" = CarCircle ] && warmup=60000
  mkdir -p "runs/$task" "results/$task"
  [ -f "$data" ] || $lspc collect --task "$task" --out "$data" --warmup $warmup
  $lspc inspect "$data" --json >"results/$task/data.json"

  $lspc train --data "$data" --preset cpu --seeds 0 1 2 --out "runs/$task/lspc"
  $lspc evaluate "runs/$task/lspc" >"results/$task/lspc.txt"
  keep "$task" lspc
  for budget in None 10 20 40; do
    name=bc-${budget/None/all}
    $lspc train --data "$data" --algo bc --preset cpu --budget $budget --seeds 0 1 2 --out "runs/$task/$name"
    $lspc evaluate "runs/$task/$name" --actions deterministic >/dev/null
    keep "$task" "$name"
  done

  case $task in BallCircle | CarRun)
    for preset in paper official; do
      $lspc train --data "$data" --preset $preset --steps 30000 --out "runs/$task/$preset"
      $lspc evaluate "runs/$task/$preset" >"results/$task/$preset.txt"
      keep "$task" $preset
    done
    ;;
  esac
done
.venv/bin/python results/table.py
