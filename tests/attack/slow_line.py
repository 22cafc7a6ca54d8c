#!/usr/bin/env python3
"""Runs a command behind a slow line: what goes in and out of it is delayed and limited, as over a distant network.

    tests/attack/slow_line.py MILLISECONDS MEGABITS COMMAND...    # a round trip takes MILLISECONDS

For `afterglow --through "tests/attack/slow_line.py 80 20 afterglow session"` where the system has no `tc netem`.
"""
import collections, os, subprocess, sys, threading, time

delay, rate = float(sys.argv[1]) / 2000, float(sys.argv[2]) * 125000
buffered = 256 << 10  # bytes that the line takes before its sender must wait


def carry(source, target):
    waiting, changed = collections.deque(), threading.Condition()

    def deliver():
        while True:
            with changed:
                changed.wait_for(lambda: waiting)
                due, piece = waiting[0]
            time.sleep(max(0, due - time.monotonic()))
            if not piece:
                return os.close(target)
            try:
                while piece:
                    piece = piece[os.write(target, piece):]
            except OSError:
                os._exit(0)
            with changed:
                waiting.popleft()
                changed.notify()

    threading.Thread(target=deliver).start()
    free_at = 0
    while True:
        piece = os.read(source, 4096)
        free_at = max(free_at, time.monotonic()) + len(piece) / rate
        with changed:
            changed.wait_for(lambda: len(waiting) * 4096 < buffered)
            waiting.append((free_at + delay, piece))
            changed.notify()
        if not piece:
            return


program = subprocess.Popen(sys.argv[3:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
threading.Thread(target=carry, args=(0, program.stdin.fileno())).start()
carry(program.stdout.fileno(), 1)
