#!/bin/bash
# Scores many checkpoints on several machines of a SLURM cluster with Ray. Submit it with: sbatch examples/ray_slurm.sh
# Not tried on a cluster: checked by bash -n, and its commands of Ray and nnd on one machine.
#SBATCH --job-name=nnd-ray
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=32
#SBATCH --time=08:00:00
set -euo pipefail

# All machines see these folders. The environment has nnd-tasks[ray].
source "${NND_ENV:-$HOME/nnd/bin/activate}"
export NND_HOME="${NND_HOME:-$HOME/.cache/nnd}"
models="${MODELS:-$HOME/checkpoints/step-*}"
tasks="${TASKS:-nnd_quiz_design,nnd_summeval}"
gpus=4

# Ray's files are for this user alone, its statistics are off, and only who has the token may use it.
umask 077
export RAY_USAGE_STATS_ENABLED=0 RAY_AUTH_MODE=token RAY_AUTH_TOKEN RAY_TMPDIR="/tmp/nnd-ray-$SLURM_JOB_ID/ray"
RAY_AUTH_TOKEN="$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')"

# This script runs on the first machine, which begins the cluster. `--block`: each stays for as long as its step.
mapfile -t machines < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
address="$(hostname --ip-address | cut -d' ' -f1):$((20000 + SLURM_JOB_ID % 20000))"
srun --nodes=1 --ntasks=1 --nodelist="${machines[0]}" \
  ray start --head --node-ip-address="${address%:*}" --port="${address#*:}" --num-gpus="$gpus" --include-dashboard=false --block &
for _ in {1..60}; do
  ray status --address="$address" > /dev/null 2>&1 && break
  sleep 2
done
for machine in "${machines[@]:1}"; do
  srun --nodes=1 --ntasks=1 --nodelist="$machine" ray start --address="$address" --num-gpus="$gpus" --block &
done

# Workers begin as machines join. A job that is taken away is submitted again: models that have results are left out, and of the
# one that was interrupted whole batches are in the cache.
for model in $models; do
  results="$NND_HOME/results/${model##*/}"
  [ -e "$results" ] && continue
  nnd run --model ray --tasks "$tasks" --use_cache "$NND_HOME/answers" --output_path "$results" --model_args \
    "pretrained=$model,engine=hf,workers=$((gpus * ${#machines[@]})),worker_cpus=4,worker_gpus=1,address=$address,dtype=bfloat16"
done
