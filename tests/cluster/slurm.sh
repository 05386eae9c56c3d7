#!/usr/bin/env bash
# A real SLURM on this one machine, to try the profile on: partitions `cpu` and `gpu`, four GPUs that schedule but do
# not compute, and a partition `urgent` whose jobs preempt others. Accounting is on and limits are enforced: accounts
# `koct` and `mine`, and a QOS `short` of half an hour. Needs Debian or Ubuntu and root. nodes.sh has several nodes.
#
#   tests/cluster/slurm.sh start     installs slurm-wlm, slurmdbd, MariaDB and munge where they are missing
#   tests/cluster/slurm.sh status
#   tests/cluster/slurm.sh stop      cancels what runs, ends the daemons and removes the folder
#
# Everything it writes is under KOCT_SLURM_DIR, by default /tmp/koct-slurm, and a link to its slurm.conf in /etc/slurm:
# Snakemake's plugin does not hand SLURM_CONF down to the steps of a job.
set -euo pipefail
DIR=${KOCT_SLURM_DIR:-/tmp/koct-slurm}
export SLURM_CONF=$DIR/slurm.conf
LINK=/etc/slurm/slurm.conf
PORT=${KOCT_SLURM_PORT:-26817}
DAEMONS=(slurmd slurmctld slurmdbd mariadbd munged)

die() { echo "slurm.sh: $*" >&2; exit 1; }
running() { [ -s "$DIR/$1.pid" ] && kill -0 "$(cat "$DIR/$1.pid")" 2>/dev/null; }

install() {
    type slurmctld slurmd slurmdbd mariadbd munged srun >/dev/null 2>&1 && return
    command -v apt-get >/dev/null ||
        die "needs slurm-wlm, slurmdbd, mariadb-server and munge; there is no apt-get here to install them with"
    apt-get update -qq
    # the packages' own services stay down: this script has its own configuration
    RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends slurm-wlm slurmdbd mariadb-server munge >/dev/null
}

configure() {
    local host cpus memory
    host=$(hostname -s) cpus=$(nproc)
    memory=$(awk '/MemTotal/ {print int($2 / 1024)}' /proc/meminfo)
    mkdir -p "$DIR/spool" "$DIR/state" "$DIR/munge"
    chmod 755 "$DIR"
    chmod 700 "$DIR/munge"
    [ -s "$DIR/munge/key" ] || dd if=/dev/urandom of="$DIR/munge/key" bs=1024 count=1 status=none
    chmod 400 "$DIR/munge/key"
    # Where control groups of version 1 are there, a job that takes more memory than it asked for is killed.
    local tasks=none
    if [ -w /sys/fs/cgroup/memory/memory.limit_in_bytes ]; then
        tasks=cgroup
        printf '%s\n' CgroupPlugin=cgroup/v1 CgroupMountpoint=/sys/fs/cgroup ConstrainRAMSpace=yes >"$DIR/cgroup.conf"
    fi
    # Plain files are refused as GPUs; terminals are device files that nearly every machine has.
    local device=/dev/tty
    if [ ! -c /dev/tty3 ]; then
        device=$DIR/device
        for i in 0 1 2 3; do [ -c "$device$i" ] || mknod "$device$i" c 4 "$i"; done
    fi
    printf 'Name=gpu Type=test-model File=%s[0-3]\n' "$device" >"$DIR/gres.conf"
    # config_overrides lets a small machine promise what the largest cell asks for.
    cat >"$SLURM_CONF" <<CONF
ClusterName=koct
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$PORT
SlurmdPort=$((PORT + 1))
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$DIR/munge/socket,cred_expire=10
CredType=cred/munge
StateSaveLocation=$DIR/state
SlurmdSpoolDir=$DIR/spool
SlurmctldPidFile=$DIR/slurmctld.pid
SlurmdPidFile=$DIR/slurmd.pid
SlurmctldLogFile=$DIR/slurmctld.log
SlurmdLogFile=$DIR/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/$tasks
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=sched_interval=5,batch_sched_delay=0,sched_min_interval=0
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$((PORT + 2))
AccountingStoragePass=$DIR/munge/socket
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=limits,qos
JobAcctGatherType=jobacct_gather/none
GresTypes=gpu
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MinJobAge=86400
KillWait=5
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=$host NodeAddr=127.0.0.1 CPUs=$cpus RealMemory=$((memory > 65536 ? memory : 65536)) Gres=gpu:test-model:4 State=UNKNOWN
PartitionName=cpu Nodes=$host Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=gpu Nodes=$host MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes=$host MaxTime=INFINITE State=UP PriorityTier=10
CONF
    cat >"$DIR/slurmdbd.conf" <<CONF
AuthType=auth/munge
AuthInfo=socket=$DIR/munge/socket
DbdHost=localhost
DbdPort=$((PORT + 2))
SlurmUser=root
LogFile=$DIR/slurmdbd.log
PidFile=$DIR/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$((PORT + 3))
StorageUser=slurm
StoragePass=slurm
CONF
    chmod 600 "$DIR/slurmdbd.conf"
}

# waits until a command succeeds
await() {
    for _ in $(seq 120); do
        ! "$@" >/dev/null 2>&1 || return 0
        sleep 0.25
    done
    die "$* does not succeed: see the logs in $DIR"
}

idle() { [ "$(sinfo --noheader --partition cpu --format %t)" = idle ]; }

# the database, its daemon, and who may submit what
account() {
    local client=(mariadb --no-defaults --socket="$DIR/mariadb.socket")
    mariadb-install-db --no-defaults --user=root --datadir="$DIR/mariadb" >"$DIR/mariadb.log"
    setsid mariadbd --no-defaults --user=root --datadir="$DIR/mariadb" --socket="$DIR/mariadb.socket" \
        --pid-file="$DIR/mariadbd.pid" --bind-address=127.0.0.1 --port=$((PORT + 3)) </dev/null >>"$DIR/mariadb.log" 2>&1 &
    await "${client[@]}" --execute="select 1"
    "${client[@]}" --execute="create user slurm@127.0.0.1 identified by 'slurm'; grant all on *.* to slurm@127.0.0.1"
    slurmdbd
    await sacctmgr --immediate add cluster koct
    sacctmgr --immediate --quiet add account koct,mine
    sacctmgr --immediate --quiet add qos short set MaxWall=30
    sacctmgr --immediate --quiet add user "$(id -un)" account=koct,mine defaultaccount=koct qos=normal,short
}

start() {
    [ "$(id -u)" = 0 ] || die "the daemons need root"
    if running slurmctld; then
        sinfo
        return
    fi
    install
    [ ! -e "$LINK" ] || [ "$(readlink "$LINK")" = "$SLURM_CONF" ] || die "$LINK is there: this machine has a SLURM"
    configure
    mkdir -p "$(dirname "$LINK")"
    ln -sfn "$SLURM_CONF" "$LINK"
    munged --force --key-file="$DIR/munge/key" --socket="$DIR/munge/socket" --pid-file="$DIR/munged.pid" \
        --log-file="$DIR/munged.log" --seed-file="$DIR/munge/seed"
    account
    slurmctld -c 2>>"$DIR/slurmctld.log"
    slurmd 2>>"$DIR/slurmd.log"
    await idle
    sinfo
}

stop() {
    if running slurmctld; then
        scancel --quiet --state=PENDING --user="$(id -un)" || true
        scancel --quiet --user="$(id -un)" || true
        for _ in $(seq 30); do
            [ -z "$(squeue --noheader --states=RUNNING,COMPLETING,PENDING 2>/dev/null)" ] && break
            sleep 0.5
        done
    fi
    for daemon in "${DAEMONS[@]}"; do
        running "$daemon" || continue
        pid=$(cat "$DIR/$daemon.pid")
        kill "$pid"
        for _ in $(seq 40); do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.25
        done
        ! kill -0 "$pid" 2>/dev/null || die "$daemon (process $pid) does not end"
    done
    [ "$(readlink "$LINK")" != "$SLURM_CONF" ] || rm "$LINK"
    rm -rf "$DIR"
}

case ${1:-} in
start) start ;;
stop) stop ;;
status)
    for daemon in "${DAEMONS[@]}"; do
        running "$daemon" && echo "$daemon runs as process $(cat "$DIR/$daemon.pid")" || echo "$daemon does not run"
    done
    running slurmctld && sinfo && squeue
    ;;
*) die "say start, stop or status" ;;
esac
