"""An object that each worker makes once and keeps while it works; if the worker is lost, so is the object."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

from rfsize.dask.clients import SECONDS_WITHOUT_WORKERS

# How often to check that all workers are still there.
_SECONDS_BETWEEN_LOOKS = 0.5
# If a result takes longer to arrive, its worker may be lost.
_SECONDS_TO_BRING = 5.0
# After this number of workers lost with the same piece of work, the piece itself is taken to be the cause.
_LOSSES = 3


class HeldOnWorkers:
    """An object that each worker makes once and keeps until this context is closed, and the work done with it.

    A worker does one piece of work at a time. If a worker is lost, another worker does its piece of work, and a worker
    that joins makes the object again.

    Parameters
    ----------
    client : distributed.Client
        The client of the workers.
    name : str
        The name of the tasks on the dashboard.
    send : callable
        Sends the data for the object to the worker at an address, and returns their futures.
    make : callable
        Makes the object on a worker with this number of threads: ``make(threads, *sent)``.
    """

    def __init__(self, client: Any, name: str, send: Callable[[str], Sequence[Any]], make: Callable[..., Any]) -> None:
        self._client, self._name, self._send, self._make = client, name, send, make
        self._held: dict[str, Any] = {}

    def __enter__(self) -> HeldOnWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._client.status == "running":
            self._client.cancel(list(self._held.values()), force=True)
        self._held.clear()

    def once(self, work: Callable[..., Any], *piece: Any) -> Any:
        """The result of ``work(held, *piece)`` on any worker; raises as `each`."""
        return next(self.each(work, [piece]))

    def each(self, work: Callable[..., Any], pieces: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        """Yield the result of ``work(held, *piece)`` for each piece, in order.

        Raises
        ------
        RuntimeError
            If there is no worker left, or several were lost with the same piece of work.
        """
        shift = _Shift(self, work, pieces)
        for number in range(len(pieces)):
            while number not in shift.done:
                shift.go_on()
            yield shift.done.pop(number)

    def workers(self) -> set[str]:
        """Addresses of the present workers, each of which holds the object or is making it.

        Raises
        ------
        RuntimeError
            If the scheduler is gone.
        """
        from distributed import TimeoutError

        threads = self._threads()
        self._held = {address: held for address, held in self._held.items() if address in threads}
        for address in threads.keys() - self._held.keys():
            # Dask raises these if the worker is lost meanwhile, or is paused.
            with suppress(KeyError, OSError, TimeoutError):
                sent = self._send(address)
                self._held[address] = self._submit("data", self._make, threads[address], *sent, at=address)
        return set(self._held)

    def _threads(self) -> dict[str, int]:
        """Number of threads of each present worker, by address."""
        lost = "the connection to Dask's scheduler was lost, and the forest in training with it"
        if self._client.status != "running":
            raise RuntimeError(lost)
        try:
            return dict(self._client.nthreads())
        except OSError as error:
            raise RuntimeError(lost) from error

    def forget(self, address: str) -> None:
        """Forget the object that a lost worker held."""
        self._held.pop(address, None)

    def start(self, work: Callable[..., Any], piece: tuple[Any, ...], address: str) -> Any:
        """The future of a piece of work on a worker."""
        return self._submit("block", work, self._held[address], *piece, at=address)

    def _submit(self, what: str, task: Callable[..., Any], *arguments: Any, at: str) -> Any:
        key = f"{self._name}-{what}-{uuid4().hex}"
        return self._client.submit(task, *arguments, key=key, workers=[at], allow_other_workers=False, pure=False)


class _Shift:
    """Pieces of work on their way: waiting, on a worker, or done."""

    def __init__(self, held: HeldOnWorkers, work: Callable[..., Any], pieces: Sequence[tuple[Any, ...]]) -> None:
        self.done: dict[int, Any] = {}
        self._held, self._work, self._pieces = held, work, pieces
        self._waiting = deque(range(len(pieces)))
        self._at: dict[str, tuple[int, Any]] = {}
        self._losses: Counter[int] = Counter()
        self._last_seen = time.monotonic()

    def go_on(self) -> None:
        """Give work to idle workers, wait a while, and collect results."""
        there = self._held.workers()
        for address in self._at.keys() - there:
            self._lost(address)
        self._complain_of_no_workers(bool(there))
        for address in list(there - self._at.keys())[: len(self._waiting)]:
            number = self._waiting.popleft()
            self._at[address] = number, self._held.start(self._work, self._pieces[number], address)
        self._wait()
        for address, (number, future) in list(self._at.items()):
            if future.status == "finished":
                self._take(address, number, future)
            elif future.status == "error" and not _is_loss(future.exception()):
                future.result()  # raises it
            elif future.status != "pending":
                self._lost(address)

    def _wait(self) -> None:
        from distributed import CancelledError, TimeoutError, wait

        if not self._at:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            return
        with suppress(TimeoutError, CancelledError):  # the states of the futures are checked next
            futures = [future for _, future in self._at.values()]
            wait(futures, timeout=_SECONDS_BETWEEN_LOOKS, return_when="FIRST_COMPLETED")

    def _take(self, address: str, number: int, future: Any) -> None:
        """Bring a result here, unless its worker is lost meanwhile: Dask would then wait forever."""
        from distributed import CancelledError, TimeoutError

        patience = _SECONDS_TO_BRING
        while address in self._at:
            try:
                self.done[number] = future.result(timeout=patience)
                del self._at[address]
            except TimeoutError:
                patience *= 2
                if address not in self._held.workers():
                    self._lost(address)
            except CancelledError:
                self._lost(address)

    def _lost(self, address: str) -> None:
        """Put the work of a lost worker at the front of the queue."""
        number, _ = self._at.pop(address)
        self._held.forget(address)
        self._waiting.appendleft(number)
        self._losses[number] += 1
        if self._losses[number] > _LOSSES:
            raise RuntimeError(
                f"{self._losses[number]} workers were lost with the same piece of work: most likely they have too "
                "little memory for all rows, which each of them holds; give them more, or train on fewer rows"
            )

    def _complain_of_no_workers(self, is_any: bool) -> None:
        if is_any:
            self._last_seen = time.monotonic()
        elif time.monotonic() - self._last_seen > SECONDS_WITHOUT_WORKERS:
            raise RuntimeError(
                f"Dask has had no worker that takes rows for {SECONDS_WITHOUT_WORKERS:.0f} seconds, and the forest in "
                "training is lost: start workers with memory enough for all rows, and grow it again"
            )


def _is_loss(error: BaseException | None) -> bool:
    """Whether a task failed because its worker was lost."""
    from distributed.scheduler import KilledWorker

    return isinstance(error, KilledWorker)
