"""Steps a second of ``VectorEnv``, whose windows are left as they are: ten segments over 2 Mbit/s and 40 ms."""

import time

import numpy as np
from windlass.env import VectorEnv

SCENARIO = """name = "one-flow"
time_limit = "10000 s"
[[host]]
name = "server"
[[host]]
name = "client"
[[link]]
between = ["server", "client"]
rate = "2 Mbit/s"
delay = "20 ms"
buffer = "50 packets"
[[flow]]
from = "server"
to = "client"
size = "unlimited"
"""

for count in (1, 100, 1000):
    env = VectorEnv(SCENARIO, count, step="100 ms")
    env.reset(seed=1)
    same = np.zeros((count, 1), dtype=np.float32)
    for _ in range(10):
        env.step(same)
    steps = max(50, 50_000 // count)
    begin = time.perf_counter()
    for _ in range(steps):
        env.step(same)
    took_s = time.perf_counter() - begin
    print(f"VectorEnv, {count} environments in one process: {count * steps / took_s:.0f} steps/s")
