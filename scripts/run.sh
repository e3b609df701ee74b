#!/usr/bin/env bash
# Everything behind the tables of README and docs: data, runs, raw records. Hours on two cores; finished parts are kept.
#   scripts/run.sh            all of it
#   scripts/run.sh CarRun     one task
# Data and runs go to runs/; what is small (settings, episode records, dataset profiles) is copied to results/.
set -euo pipefail
cd "$(dirname "$0")/.."
lspc=${LSPC:-.venv/bin/lspc}

keep() { # keep TASK NAME: the settings and the raw records of a run
  mkdir -p "results/$1/$2"
  cp "runs/$1/$2/config.json" "runs/$1/$2/evaluations.jsonl" "results/$1/$2/"
}

thresholds() { # the suite's three budgets
  case $1 in Ball* | CarRun | CarCircle | easy* | medium* | hard*) echo 10 20 40 ;; *) echo 20 40 80 ;; esac
}

for task in ${1:-BallCircle BallRun CarRun CarCircle HalfCheetahVelocity CarGoal1 easysparse harddense}; do
  data=runs/$task/data.hdf5
  options=
  [ "$task" = CarCircle ] && options="--warmup 60000"
  [ "$task" = CarGoal1 ] && options="--steps 100000"
  mkdir -p "runs/$task" "results/$task"
  [ -f "$data" ] || $lspc collect --task "$task" --out "$data" $options
  $lspc inspect "$data" --json >"results/$task/data.json"

  $lspc train --data "$data" --preset cpu --seeds 0 1 2 --out "runs/$task/lspc"
  $lspc evaluate "runs/$task/lspc" >"results/$task/lspc.txt"
  keep "$task" lspc
  case $task in
  Ball* | CarRun | CarCircle | HalfCheetahVelocity)
    mkdir -p results/calibration
    $lspc calibrate "runs/$task/lspc" --budget 5 10 20 40 --updates 5000 --verify --json >"results/calibration/$task.json"
    $lspc evaluate "runs/$task/lspc" --policies LSPC-O --actions deterministic --restrictions 1 1.5 2 \
      --guard 5 10 20 40 --json >"results/calibration/$task.guard.json"
    ;;
  esac
  for budget in None $(thresholds "$task"); do
    name=bc-${budget/None/all}
    $lspc train --data "$data" --algo bc --preset cpu --budget $budget --seeds 0 1 2 --out "runs/$task/$name"
    $lspc evaluate "runs/$task/$name" --actions deterministic >/dev/null
    keep "$task" "$name"
  done

  case $task in
  BallCircle | CarRun)
    for eps in 0.1 0.25 0.6; do
      $lspc train --data "$data" --preset cpu --restriction $eps --restriction-range None --out "runs/$task/fixed-$eps"
      $lspc evaluate "runs/$task/fixed-$eps" --policies LSPC-O --actions deterministic --seeds 0 >/dev/null
      keep "$task" fixed-$eps
    done
    for preset in default paper official; do
      $lspc train --data "$data" --preset $preset --steps 30000 --out "runs/$task/$preset"
      $lspc evaluate "runs/$task/$preset" >"results/$task/$preset.txt"
      keep "$task" $preset
    done
    ;;
  easysparse)
    $lspc train --data "$data" --preset cpu --cost-mask 0.02 --seeds 0 1 2 --out "runs/$task/mask"
    $lspc evaluate "runs/$task/mask" >"results/$task/mask.txt"
    keep "$task" mask
    ;;
  esac
done

# Every other method on two tasks, and the paper's figures for them.
if [ -z "${1:-}" ]; then
  $lspc bench --tasks BallCircle CarRun --algos bc fisor coptidice bcq_lag cdt cpq bear_lag --preset cpu --seeds 1 \
    --data runs --out runs/bench
  for task in BallCircle CarRun; do
    for cell in runs/bench/runs/$task/*; do
      mkdir -p "results/$task/bench/${cell##*/}"
      cp "$cell/config.json" "$cell/evaluations.jsonl" "results/$task/bench/${cell##*/}/"
    done
    $lspc figure all --data "runs/$task/data.hdf5" --out "runs/$task/figures"
    mkdir -p "docs/figures/$task" && cp "runs/$task/figures/"*.png "docs/figures/$task/"
    for run in "runs/$task/figures/runs/"*; do
      mkdir -p "results/$task/figures/${run##*/}"
      for name in config.json evaluations.jsonl curve.jsonl; do
        [ ! -f "$run/$name" ] || cp "$run/$name" "results/$task/figures/${run##*/}/"
      done
    done
  done
  .venv/bin/python scripts/methods.py
  .venv/bin/python scripts/figures.py
fi

nine="easysparse easymean easydense mediumsparse mediummean mediumdense hardsparse hardmean harddense"
for task in easysparse harddense; do
  [ -d "runs/$task/lspc" ] || continue
  $lspc evaluate "runs/$task/lspc" --on $nine --policies LSPC-O --actions deterministic --seeds 0 >/dev/null
  keep "$task" lspc
done
[ -d runs/harddense/lspc ] && $lspc figure transfer runs/easysparse/lspc runs/harddense/lspc --out docs/figures/transfer.png
.venv/bin/python scripts/table.py
.venv/bin/python scripts/index_results.py
