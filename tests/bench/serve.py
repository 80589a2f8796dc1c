"""How a peer written in Python answers: one line of JSON a request, on standard input and output.

{"seconds": S, "least": N}  runs for S seconds, at least N times → the seconds of every run
{"save": FOLDER}            writes the last run's stages as FOLDER/STAGE.npy → null
"""
import json
import os
import sys
import time


def serve(compute, save):
    """compute() → {stage: array}, in memory of its own; save(path, array). The first run does not count."""
    stages = compute()
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        times = []
        if "save" in request:
            for stage, array in stages.items():
                save(os.path.join(request["save"], stage + ".npy"), array)
            print("null", flush=True)
            continue
        while len(times) < request["least"] or sum(times) < request["seconds"]:
            stages = None  # as a program that needs the old results no longer
            start = time.perf_counter()
            stages = compute()
            times.append(time.perf_counter() - start)
        print(json.dumps(times), flush=True)
