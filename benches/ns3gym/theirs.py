"""Steps a second of one environment of ns3-gym, whose window is left as it is. The argument is its port."""

import os
import subprocess
import sys
import time

import numpy as np

# what the client uses, and numpy has no more
np.int, np.float = int, float
sys.path.insert(0, os.environ["GYM_NS3_CLIENT"])
stdout, sys.stdout = sys.stdout, sys.stderr
from ns3gym import ns3env  # noqa: E402

STEPS = 3000

port = sys.argv[1]
options = {
    "openGymPort": port,
    "transport_prot": "TcpRlTimeBased",
    "envTimeStep": "0.1",
    "duration": "100000",
    "mtu": "1500",
    "bottleneck_bandwidth": "2Mbps",
    "access_bandwidth": "100Mbps",
    "access_delay": "10ms",
}
words = [f"--{key}={value}" for key, value in options.items()]
simulation = subprocess.Popen([os.environ["GYM_NS3_PROGRAM"], *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
env = ns3env.Ns3Env(port=int(port), startSim=False, simSeed=1)
seen = env.reset()
begin = 0.0
for step in range(-50, STEPS):
    if step == 0:
        begin = time.perf_counter()
    # ssthresh and window
    seen, _, is_over, _ = env.step([seen[4], seen[5]])[:4]
    assert not is_over
print(STEPS / (time.perf_counter() - begin), file=stdout, flush=True)
simulation.kill()
# its own end waits for the simulation
os._exit(0)
