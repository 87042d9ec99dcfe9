"""One submitted request as Python sees it, and what came of it."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.errors import RequestFailed

OnToken = Callable[[int], object]
_SLICE_S = 0.5  # longest wait inside native code, so that Ctrl-C and abandoned iterations are noticed


@dataclass(frozen=True)
class Generation:
    """The outcome of one request. Instants are seconds of the monotonic clock (time.monotonic)."""

    tokens: tuple[int, ...]
    finish_reason: str  # "length", "stop", "cancelled" or "closed"
    submitted_s: float
    admitted_s: float | None  # None: it never left the queue
    finished_s: float
    token_times_s: tuple[float, ...]
    logits: npt.NDArray[np.float32] | None = None  # [tokens, vocabulary], where asked for


class Handle:
    """A submitted request. Every method may be called from any thread."""

    def __init__(self, request: Any, keep_logits: bool, on_token: OnToken | None) -> None:
        """`request` is native. With `on_token` a thread of its own calls it once a token, in order, with no lock held: a slow
        callback delays nobody else. One that raises ends this request only; its error stands in `error` and behind `result`.
        """
        self._request = request
        self._keep_logits = keep_logits
        self._error: BaseException | None = None
        self._dispatcher: threading.Thread | None = None
        if on_token is not None:
            name = f"paceline-request-{request.id}"
            self._dispatcher = threading.Thread(target=self._dispatch, args=(on_token,), name=name, daemon=True)
            self._dispatcher.start()

    @property
    def id(self) -> int:
        """Number of the request within its session, in the order of submission."""
        return int(self._request.id)

    @property
    def done(self) -> bool:
        """Whether the outcome is settled and every callback has returned."""
        return self._request.state == "done" and not (self._dispatcher and self._dispatcher.is_alive())

    @property
    def error(self) -> BaseException | None:
        """What the request's callback raised, or the native fault as RequestFailed; None while there is none."""
        if self._error is None and self._request.state == "done" and self._request.finish_reason == "error":
            self._error = RequestFailed(f"request {self.id}: {self._request.error}")
        return self._error

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens generated so far."""
        return tuple(self._request.tokens())

    def cancel(self) -> None:
        """Ask for an end before the next token; the outcome is then "cancelled", unless it was settled already."""
        self._request.cancel()

    def result(self, timeout: float | None = None) -> Generation:
        """Wait for the outcome. A request that was cancelled, or cut short by the session's close, gives the tokens it had.

        Raises TimeoutError after `timeout` seconds, RequestFailed when the request broke or its callback raised.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._request.wait(_left(deadline)):
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"request {self.id}: not done after {timeout} s (state {self._request.state})")
        while self._dispatcher and self._dispatcher.is_alive() and self._dispatcher is not threading.current_thread():
            self._dispatcher.join(_left(deadline))
            if deadline is not None and time.monotonic() >= deadline and self._dispatcher.is_alive():
                raise TimeoutError(f"request {self.id}: done, but its on_token callback has not returned after {timeout} s")
        if self.error is not None:
            raise _as_failure(self.id, self.error)
        return self._generation()

    def __aiter__(self) -> AsyncIterator[int]:
        """The request's tokens from the first on, as they come. Leaving the loop early does not cancel the request.

        Raises RequestFailed after the last token when the request broke.
        """
        return self._stream()

    async def _stream(self) -> AsyncIterator[int]:
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[int | None] = asyncio.Queue()
        left = threading.Event()

        def put(item: int | None) -> None:
            try:
                loop.call_soon_threadsafe(queue.put_nowait, item)
            except RuntimeError:  # the loop is closed: nobody listens any more
                left.set()

        def run() -> None:
            self._follow(put, left)
            put(None)

        threading.Thread(target=run, name=f"paceline-stream-{self.id}", daemon=True).start()
        try:
            while (token := await queue.get()) is not None:
                yield token
        finally:
            left.set()
        if self.error is not None:
            raise _as_failure(self.id, self.error)

    def _dispatch(self, on_token: OnToken) -> None:
        try:
            self._follow(on_token, threading.Event())
        except BaseException as error:  # whatever it raises is this request's end and nobody else's
            self._error = error
            self._request.cancel()

    def _follow(self, deliver: OnToken, left: threading.Event) -> None:
        """Deliver each token once, in order, until the request is done or `left` is set."""
        seen = 0
        while not left.is_set():
            self._request.wait_tokens(seen, _SLICE_S)
            done = self._request.state == "done"  # read first: once done, the tokens are final
            for token in self._request.tokens()[seen:]:
                seen += 1
                deliver(token)
            if done:
                return

    def _generation(self) -> Generation:
        request = self._request
        return Generation(
            tokens=tuple(request.tokens()),
            finish_reason=request.finish_reason,
            submitted_s=request.submitted_ns / 1e9,
            admitted_s=request.admitted_ns / 1e9 if request.admitted_ns else None,
            finished_s=request.finished_ns / 1e9,
            token_times_s=tuple(ns / 1e9 for ns in request.token_times_ns()),
            logits=request.logits() if self._keep_logits else None,
        )


def _left(deadline: float | None) -> float:
    return _SLICE_S if deadline is None else min(_SLICE_S, max(0.0, deadline - time.monotonic()))


def _as_failure(request_id: int, error: BaseException) -> RequestFailed:
    if isinstance(error, RequestFailed):
        return error
    failure = RequestFailed(f"request {request_id}: its on_token callback raised {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure
