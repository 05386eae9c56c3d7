#!/usr/bin/env bash
# A real SLURM of a head and three nodes on this one machine, to try several nodes, preemption and a lost node on:
# partitions `cpu`, `gpu` and `urgent`, which preempts the other two; four GPUs a node that schedule but do not compute.
# Each machine is a set of namespaces (network, hostname, mounts); the file system is the same on all of them.
# Needs Debian or Ubuntu and root, and runs beside the cluster of slurm.sh.
#
#   tests/cluster/nodes.sh start               installs what is missing; exit status 3 where namespaces are refused
#   tests/cluster/nodes.sh on NAME COMMAND...  runs a command in this folder on head, node1, node2 or node3
#   tests/cluster/nodes.sh lose NAME           a node falls silent: its link goes down, all that runs on it is killed
#   tests/cluster/nodes.sh bring NAME          and comes back; SLURM takes half a minute to find it down before that
#   tests/cluster/nodes.sh status
#   tests/cluster/nodes.sh stop                cancels what runs, ends the machines and removes the folder
#
# Everything it writes is under KOCT_NODES_DIR, by default /tmp/koct-nodes. The machines see its etc as /etc/slurm.
set -euo pipefail
unset SLURM_CONF
DIR=${KOCT_NODES_DIR:-/tmp/koct-nodes}
NET=10.217.83
PORT=26917
NODES=(node1 node2 node3)

die() { echo "nodes.sh: $*" >&2; exit 1; }
refuse() { echo "nodes.sh: no machines of namespaces can be had here: $*" >&2; exit 3; }

# The process that holds a machine's namespaces, or a daemon that outlived it. They work in the machine's folder, which
# tells them from any later process of the same number, and never have this machine's own network.
pid() {
    local name pid
    for name in ${2:-holder slurmctld slurmd}; do
        pid=$(cat "$DIR/$1/$name.pid" 2>/dev/null) || continue
        if [ "/proc/$pid/cwd" -ef "$DIR/$1" ] && [ ! "/proc/$pid/ns/net" -ef /proc/1/ns/net ]; then
            echo "$pid"
            return
        fi
    done
    return 1
}
up() { pid "$1" >/dev/null; }
running() { pid head slurmctld >/dev/null; }

# the other processes on a machine
processes() {
    local process holder
    holder=/proc/$(pid "$1")
    for process in /proc/[0-9]*; do
        [ "$process" = "$holder" ] || [ ! "$process/ns/net" -ef "$holder/ns/net" ] || echo "${process#/proc/}"
    done
}

# sends a signal to all of them until none is left, for at most five seconds
end() {
    for _ in $(seq 50); do
        [ -n "$(processes "$2")" ] || return 0
        processes "$2" | xargs kill "-$1" 2>/dev/null || true
        sleep 0.1
    done
    return 1
}

# does not return: in a subshell where more is to follow
on() {
    local machine=$1
    shift
    up "$machine" || die "there is no machine $machine: run nodes.sh start"
    # not nsenter --wd: that folder would be one outside of the machine's own mounts
    exec nsenter --target "$(pid "$machine")" --net --uts --mount -- env --chdir="$PWD" -- "$@"
}

install() {
    type slurmctld slurmd munged srun ip nsenter unshare >/dev/null 2>&1 && return
    command -v apt-get >/dev/null ||
        die "needs slurm-wlm, munge, iproute2 and util-linux; there is no apt-get here to install them with"
    apt-get update -qq
    # the packages' own services stay down: this script has its own configuration
    RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends slurm-wlm munge iproute2 util-linux >/dev/null
}

# Tries each thing a machine is made of, in namespaces that end with the trial.
try() {
    local why
    why=$(unshare --net --uts --mount --propagation slave bash -ec '
        hostname head
        mount -t tmpfs none /mnt
        mknod /mnt/device c 4 0
        ip link set lo up
        ip link add nodes type bridge
        ip link add node1 type veth peer name eth0' 2>&1) || refuse "$(tail -n 1 <<<"$why")"
}

configure() {
    mkdir "$DIR"
    mkdir "$DIR/etc" "$DIR/head" "$DIR/head/state" "$DIR/head/munge" "${NODES[@]/#/$DIR/}"
    chmod 755 "$DIR"
    chmod 700 "$DIR/head/munge"
    dd if=/dev/urandom of="$DIR/head/munge/key" bs=1024 count=1 status=none
    chmod 400 "$DIR/head/munge/key"
    # Plain files are refused as GPUs.
    for i in 0 1 2 3; do mknod "$DIR/device$i" c 4 "$i"; done
    printf '%s\n' '127.0.0.1 localhost' "$NET.1 head" "$NET.11 node1" "$NET.12 node2" "$NET.13 node3" >"$DIR/hosts"
    echo "NodeName=node[1-3] Name=gpu Type=test-model File=$DIR/device[0-3]" >"$DIR/etc/gres.conf"
    # CPUs and memory are numbers to schedule by: config_overrides lets a small machine promise them three times.
    # cred_expire is how long a requeued job waits, two minutes if unsaid.
    cat >"$DIR/etc/slurm.conf" <<CONF
ClusterName=koct-nodes
SlurmctldHost=head($NET.1)
SlurmctldPort=$PORT
SlurmdPort=$((PORT + 1))
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$DIR/head/munge/socket,cred_expire=10
CredType=cred/munge
StateSaveLocation=$DIR/head/state
SlurmdSpoolDir=$DIR/%n/spool
SlurmctldPidFile=$DIR/head/slurmctld.pid
SlurmdPidFile=$DIR/%n/slurmd.pid
SlurmctldLogFile=$DIR/head/slurmctld.log
SlurmdLogFile=$DIR/%n/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=sched_interval=5,batch_sched_delay=0,sched_min_interval=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
GresTypes=gpu
MinJobAge=86400
KillWait=5
SlurmdTimeout=10
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=node[1-3] CPUs=4 RealMemory=65536 Gres=gpu:test-model:4 State=UNKNOWN
PartitionName=cpu Nodes=node[1-3] Default=YES MaxTime=INFINITE PriorityTier=1 State=UP
PartitionName=gpu Nodes=node[1-3] MaxTime=INFINITE PriorityTier=1 State=UP
PartitionName=urgent Nodes=node[1-3] MaxTime=INFINITE PriorityTier=10 State=UP
CONF
}

machine() {
    # shellcheck disable=SC2016
    setsid unshare --net --uts --mount --propagation slave bash -ec '
        cd "$1/$2"
        hostname "$2"
        mount --bind "$1/hosts" /etc/hosts
        mount --bind "$1/etc" /etc/slurm
        ip link set lo up
        exec sleep infinity' - "$DIR" "$1" </dev/null >"$DIR/$1/holder.log" 2>&1 &
    echo $! >"$DIR/$1/holder.pid"
    for _ in $(seq 100); do
        [ "$(cat "/proc/$!/comm" 2>/dev/null)" != sleep ] || return 0
        sleep 0.05
    done
    die "$1 does not come up: see $DIR/$1/holder.log"
}

wire() {
    (on head ip -batch -) <<IP
link add nodes type bridge
addr add $NET.1/24 dev nodes
link set nodes up
IP
    for node in "${NODES[@]}"; do
        (on head ip -batch -) <<IP
link add $node type veth peer name eth0 netns $(pid "$node")
link set $node master nodes up
IP
        (on "$node" ip -batch -) <<IP
addr add $NET.1${node#node}/24 dev eth0
link set eth0 up
IP
    done
}

# waits until nodes answer
ready() {
    local states
    for _ in $(seq 120); do
        states=$( (on head sinfo --noheader --Node --partition cpu --nodes "$1" --format %t) 2>/dev/null) || true
        [[ $states != "" && ! $states =~ [^a-z[:space:]]|unk|down ]] && return
        sleep 0.25
    done
    die "$1 does not come up: see the logs in $DIR/head and $DIR/$1"
}

start() {
    [ "$(id -u)" = 0 ] || refuse "they need root"
    if running; then
        (on head sinfo)
        return
    fi
    install
    try
    stop # what is left of one that has died
    [ ! -e "$DIR" ] || die "$DIR is there and is not this script's"
    mkdir -p /etc/slurm
    configure
    for name in head "${NODES[@]}"; do machine "$name"; done
    wire
    (on head munged --force --key-file="$DIR/head/munge/key" --socket="$DIR/head/munge/socket" \
        --pid-file="$DIR/head/munged.pid" --log-file="$DIR/head/munged.log" --seed-file="$DIR/head/munge/seed")
    (on head slurmctld -c 2>>"$DIR/head/slurmctld.log")
    for node in "${NODES[@]}"; do (on "$node" slurmd 2>>"$DIR/$node/slurmd.log"); done
    ready 'node[1-3]'
    (on head sinfo)
}

node() { [[ " ${NODES[*]} " == *" ${1:-} "* ]] || die "say one of ${NODES[*]}"; }

lose() {
    up "$1" || die "there is no machine $1: run nodes.sh start"
    (on head ip link set "$1" down) # silence: the others do not see its connections close
    end KILL "$1" || die "processes on $1 do not end:" "$(processes "$1")"
}

bring() {
    (on head ip link set "$1" up)
    (on "$1" slurmd 2>>"$DIR/$1/slurmd.log")
    ready "$1"
}

stop() {
    [ -d "$DIR/head" ] || return 0
    if running; then
        (on head scancel --quiet --state=PENDING --user="$(id -un)") || true
        (on head scancel --quiet --user="$(id -un)") || true
        for _ in $(seq 16); do
            [ -n "$( (on head squeue --noheader --states=RUNNING,COMPLETING,PENDING) 2>/dev/null)" ] || break
            sleep 0.5
        done
    fi
    for name in "${NODES[@]}" head; do
        up "$name" || continue
        end TERM "$name" || end KILL "$name" || die "processes on $name do not end:" "$(processes "$name")"
        kill -KILL "$(pid "$name")"
    done
    rm -rf "$DIR"
}

case ${1:-} in
start) start ;;
stop) stop ;;
on)
    [ $# -ge 3 ] || die "say on NAME COMMAND..."
    on "${@:2}"
    ;;
lose | bring)
    node "${2:-}"
    "$1" "$2"
    ;;
status)
    for name in head "${NODES[@]}"; do
        up "$name" && echo "$name is up: processes $(processes "$name" | xargs)" || echo "$name is not up"
    done
    running && (on head sinfo) && (on head squeue)
    ;;
*) die "say start, on, lose, bring, status or stop" ;;
esac
