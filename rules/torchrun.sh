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
    torchrun="$torchrun --standalone"
else
    # They meet on the first node, which is this one; jobs that share a node at other ports.
    first=${SLURMD_NODENAME:-$(hostname)}
    port=$((20000 + SLURM_JOB_ID % 10000))
    torchrun="$torchrun --nnodes=$nodes --rdzv-id=$SLURM_JOB_ID --rdzv-backend=c10d --rdzv-endpoint=$first:$port"
fi
if [ -z "${KOCT_SITE:-}" ]; then
    exec $torchrun -m koct "$@"
fi
# On a cluster srun starts one torchrun on each node. It makes a job step, and only steps are told ahead of a time limit.
exec srun --nodes="$nodes" --ntasks="$nodes" --ntasks-per-node=1 --cpus-per-task=$((ranks / nodes)) $torchrun -m koct "$@"
