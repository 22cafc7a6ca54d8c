#!/usr/bin/env python3
"""A slow line: passes standard input and output on to a command, each direction late and at a limited rate.

    tests/app/slow_line.py MILLISECONDS MBIT COMMAND ...

MILLISECONDS is the round trip, MBIT the rate of each direction. For kernels without netem.
"""
import os, queue, subprocess, sys, threading, time

delay, rate = float(sys.argv[1]) / 2000, float(sys.argv[2]) * 1e6 / 8
child = subprocess.Popen(sys.argv[3:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def carry(source, sink):
    """Bytes arrive `delay` after the last one before them has been sent at the rate."""
    waiting, free = queue.Queue(maxsize=64), 0.0

    def deliver():
        while True:
            due, piece = waiting.get()
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                while piece:
                    piece = piece[os.write(sink, piece):]
            except OSError:
                os._exit(0)
            if due == float("-inf"):
                os.close(sink)
                return

    threading.Thread(target=deliver, daemon=True).start()
    while True:
        piece = os.read(source, 4096)
        free = max(free, time.monotonic()) + len(piece) / rate
        waiting.put((free + delay, piece))
        if not piece:
            return waiting.put((float("-inf"), b""))
        time.sleep(max(0.0, free - time.monotonic()))


threading.Thread(target=carry, args=(sys.stdin.fileno(), child.stdin.fileno()), daemon=True).start()
carry(child.stdout.fileno(), sys.stdout.fileno())
time.sleep(2 * delay)
sys.exit(child.wait())
