#!/bin/sh
# Runs a sweep's shards as an array of Slurm, with all of Slurm in a network namespace of its own: slurm.sh FOLDER SHARDS COMMAND.
# An array with a task that fails is submitted once more. FOLDER is for Slurm's files; Slurm ends with the script.
set -eu
folder=$1 shards=$2 command=$3

# not lo, which getaddrinfo() does not count as a way to have IPv4
ip link set lo up
ip link add slurm0 type veth peer name slurm1
ip address add 10.9.0.1/24 dev slurm0
ip link set slurm0 up
ip link set slurm1 up

head -c 128 /dev/urandom >"$folder/munge.key"
chmod 400 "$folder/munge.key"
munge=$folder/munge
cat >"$folder/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$(hostname)(10.9.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$munge.sock
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
NodeName=node NodeHostname=$(hostname) NodeAddr=10.9.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
mkdir "$folder/state" "$folder/spool"
export SLURM_CONF="$folder/slurm.conf"

munged --force --foreground --key-file="$folder/munge.key" --socket="$munge.sock" --pid-file="$munge.pid" \
	--log-file="$munge.log" --seed-file="$munge.seed" &
daemons=$!
slurmctld -D &
daemons="$daemons $!"
slurmd -D -N node &
daemons="$daemons $!"
trap 'kill $daemons; wait' EXIT

submit() {
	sbatch --wait --array="1-$shards" --output="$folder/task-%a" --wrap "$command"
}
# sbatch itself waits for a controller that is not there yet
submit || submit
