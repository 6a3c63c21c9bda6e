#!/usr/bin/env python3
"""Time of a trivial step that is placed over two TensorFlow processes; one JSON line.

    tensorflow_placed_step.py [--steps 2000] [--warmup 200]

A scalar goes from the client's task to the other one, is doubled there and comes back: a cached
Session.run through tf.distribute.Server, the runtime that Lockstep's cluster stands beside.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for sock in sockets:
        sock.bind(("127.0.0.1", 0))
    ports = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
    return ports


def serve(addresses, task):
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=1, inter_op_parallelism_threads=1
    )
    server = tf.distribute.Server(
        {"worker": addresses}, job_name="worker", task_index=task, config=config
    )
    return tf, server


def measure(addresses, steps, warmup):
    tf, server = serve(addresses, 0)
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        with tf.device("/job:worker/task:0/cpu:0"):
            x = v1.placeholder(tf.float32, [])
            there = x + 1.0
        with tf.device("/job:worker/task:1/cpu:0"):
            doubled = there * 2.0
        with tf.device("/job:worker/task:0/cpu:0"):
            y = doubled + 1.0
        with v1.Session(server.target) as session:
            run = session.make_callable(y, [x])
            assert run(3.0) == 9.0
            for _ in range(warmup):
                run(3.0)
            times = []
            for _ in range(steps):
                begin = time.perf_counter_ns()
                run(3.0)
                times.append(time.perf_counter_ns() - begin)
    times.sort()
    return {
        "framework": "tensorflow",
        "version": tf.__version__,
        "steps": steps,
        "step_us_median": statistics.median(times) / 1e3,
        "step_us_p99": times[len(times) * 99 // 100] / 1e3,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--warmup", type=int, default=200)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        _, server = serve(options.serve.split(","), 1)
        server.join()
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    other = subprocess.Popen([sys.executable, __file__, "--serve", ",".join(addresses)])
    try:
        print(json.dumps(measure(addresses, options.steps, options.warmup)))
    finally:
        other.kill()
        other.wait()


if __name__ == "__main__":
    main()
