"""
Serve a certified forest
========================

An XGBoost forest must answer single rows over HTTP, for sixteen callers at a time. From training to a service with a
certificate of how often its label differs from that of the whole forest.
"""

import json
import socket
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from itertools import chain
from pathlib import Path
from typing import Annotated

import matplotlib.pyplot as plt
import numpy as np
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel, Field, FiniteFloat
from sklearn.datasets import make_classification
from xgboost import XGBClassifier

import rfsize

X, y = make_classification(14_000, n_features=20, n_informative=8, flip_y=0.05, random_state=0)
X_train, y_train = X[:3000], y[:3000]
X_val, X_fresh = X[3000:8000], X[8000:]  # without labels: nothing below asks for them
forest = XGBClassifier(
    n_estimators=1,
    num_parallel_tree=500,
    learning_rate=1,
    subsample=0.632,
    colsample_bynode=0.3,
    random_state=0,
    n_jobs=1,
)
forest.fit(X_train, y_train)

# %%
# **What people do** is to pickle all 500 trees and to use all of them for each row. How many trees does the service
# need, if one label in a hundred may differ from that of an unlimited forest?

counted = rfsize.tree_outputs(forest, X_train, y_train, oob=True)
report = rfsize.size(counted, alpha=0.99)
print(report)
small = rfsize.truncate(counted)

# %%
# **When can a row stop?** Most rows are clear after a few trees. Rows that the forest was not trained on show how far
# apart the scores must be. They certify that at most one label in a hundred differs from that of all trees.

table = rfsize.StopTable.calibrate(small, X_val, alpha=0.99)
print(table.certificate)
print(f"{table.expected_trees():.1f} of {report.n_trees} trees a row")

# %%
# Save forest and table to one file. It is not a pickle and holds no code, and the service loads it without XGBoost.

path = Path(tempfile.mkdtemp()) / "forest.rfsize"
rfsize.compile(small, table).save(path)
print(f"{path.stat().st_size / 1e3:.0f} kB")

# %%
# **The service.** Pydantic checks the input. The function is ``async``, so it runs in the server's own thread: starting
# another thread would take longer than the prediction.


class Row(BaseModel):
    values: Annotated[list[FiniteFloat], Field(min_length=20, max_length=20)]


def service(predict):
    app = FastAPI()

    @app.post("/predict")
    async def answer(row: Row) -> dict[str, int]:
        return {"label": predict(np.array([row.values]))[0]}

    return app


# %%
# The server runs in a thread, on a free port. The socket listens before the server starts, so callers need not wait for
# it. The socket names its protocol: only then does asyncio send short answers immediately.


@contextmanager
def running(app):
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(timeout=20)


# %%
# A client posts one row and reads the label.

loaded = rfsize.load(path, n_jobs=1)


def post(connection, values):
    body = json.dumps({"values": values})
    connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
    return json.load(connection.getresponse())


with running(service(loaded.predict)) as port:
    caller = HTTPConnection("127.0.0.1", port, timeout=30)
    print(post(caller, X_fresh[0].tolist()))
    print(post(caller, [1.0, 2.0])["detail"][0]["msg"])

# %%
# **Sixteen callers** send 40 rows each, one at a time. The same service then runs with XGBoost's own ``predict`` of all
# trees, and once more without any prediction. That last time is the cost of HTTP, JSON and the callers, which share a
# process with the service.

CALLERS = 16
rows = X_fresh[:640]


def call(port, share):
    caller = HTTPConnection("127.0.0.1", port, timeout=30)
    post(caller, share[0].tolist())  # connects; not timed
    found = []
    for row in share:
        began = time.perf_counter()
        found.append((post(caller, row.tolist())["label"], time.perf_counter() - began))
    return found


def ask(name, predict):
    with running(service(predict)) as port, ThreadPoolExecutor(CALLERS) as callers:
        answers = callers.map(call, [port] * CALLERS, np.split(rows, CALLERS))
        labels, seconds = np.transpose(list(chain.from_iterable(answers)))
    p50, p99 = np.percentile(seconds * 1000, [50, 99])
    print(f"{name:<20} p50 {p50:5.1f} ms   p99 {p99:5.1f} ms")
    ax.ecdf(seconds * 1000, label=name)
    return labels


ax = plt.subplots(layout="constrained")[1]
ask("nothing to predict", lambda row: [0])
served = ask("certified forest", loaded.predict)
ask("XGBoost, all trees", forest.predict)
ax.set_xscale("log")
ax.set_xlabel("milliseconds until the answer")
ax.set_ylabel("share of the requests")
ax.figure.legend(loc="outside lower center", ncols=3, frameon=False)

# %%
# How long the prediction itself takes, one row after another. The slower the forest, the more this matters beside HTTP.

for name, model in (("all trees", forest), ("T* trees", small), ("certified", loaded)):
    began = time.perf_counter()
    for row in rows:
        model.predict(row[None])
    print(f"{name:<10} {(time.perf_counter() - began) / len(rows) * 1e6:6.0f} µs")

# %%
# **Were the answers right?** The answers over HTTP equal those of the file. The certificate compares with the trees
# that were kept. Leaving out the other trees may have changed one more label in a hundred, on average.

assert (served == loaded.predict(rows)).all()
labels = loaded.predict(X_fresh)
print(f"certified: at most {table.certificate.bound:.2%} unlike the {report.n_trees} trees")
print(f"seen on {len(X_fresh):,} fresh rows: {np.mean(labels != small.predict(X_fresh)):.2%}")
print(f"unlike all 500 trees: {np.mean(labels != forest.predict(X_fresh)):.2%}")
