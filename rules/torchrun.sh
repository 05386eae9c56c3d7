#!/bin/sh
# Start `python -m koct ARGUMENTS` once per rank with torchrun:  torchrun.sh NODES RANKS ARGUMENTS...
set -eu
nodes=$1
ranks=$2
shift 2

# One thread per rank. What ends a job reaches its ranks, SLURM's SIGUSR1 too, and they get time for a checkpoint.
export OMP_NUM_THREADS=1
export PET_SIGNALS_TO_HANDLE=SIGTERM,SIGINT,SIGUSR1
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=120

torchrun="python -m torch.distributed.run --nproc-per-node=$((ranks / nodes))"
if [ "$nodes" -eq 1 ]; then
    exec $torchrun --standalone -m koct "$@"
fi

# Several nodes: srun starts one torchrun on each, and they meet on the first, which is this one. Its name is one of the
# few that Snakemake's plugin leaves in the environment. Jobs that share a node meet at other ports.
first=${SLURMD_NODENAME:-$(hostname)}
port=$((20000 + SLURM_JOB_ID % 10000))
exec srun --nodes="$nodes" --ntasks="$nodes" --ntasks-per-node=1 --cpus-per-task=$((ranks / nodes)) \
    $torchrun --nnodes="$nodes" --rdzv-id="$SLURM_JOB_ID" --rdzv-backend=c10d --rdzv-endpoint="$first:$port" \
    -m koct "$@"
