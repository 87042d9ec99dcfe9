"""Turns of a pair: two measuring processes, both loaded, of which one works while the other waits.

What a machine does to its guests changes within seconds, so legs that run one right after the other meet different machines. In
turns they share each of its moods: serial, batch, batch, serial, ... a round or two at a time, so that a drift cancels. Never do
both work at once. (Interleaved trials, here at the scale of rounds: Bulej et al., Duet Benchmarking, ICPE 2020, run theirs at
the same instant, which two engines that want the whole memory bus cannot.)

The partners hold the two ends of a socket and hand one byte to and fro. Neither closes its engine before both have done their
rounds. A partner that dies, or keeps its turn too long, leaves the other to finish alone, and the other says so.
"""

import socket
import time
from dataclasses import dataclass, field

TURN, DONE = b"t", b"d"
_GONE = "its partner ended before its last round"


@dataclass(frozen=True)
class Place:
    """Where a process stands in its pair, as its command line says it: DESCRIPTOR,PLACE,PATIENCE."""

    descriptor: int  # of its end of the socket
    place: int  # 0 works first, 1 second
    patience_s: float  # longest wait for the partner's turn to end

    @classmethod
    def parse(cls, text: str) -> "Place":
        """Raises ValueError for anything but `str(Place(...))`."""
        descriptor, place, patience = text.split(",")
        found = cls(int(descriptor), int(place), float(patience))
        if found.descriptor < 0 or found.place not in (0, 1) or not found.patience_s > 0:
            raise ValueError(f"{text!r}: must be DESCRIPTOR,PLACE,PATIENCE with place 0 or 1 and seconds above 0")
        return found

    def __str__(self) -> str:
        return f"{self.descriptor},{self.place},{self.patience_s:g}"


@dataclass
class Turns:
    """One partner's view. Without a place it is alone, and every turn is its own."""

    place: Place | None = None
    waited_s: float = 0.0
    left_alone: str = ""  # why the partner is gone before its time; empty while it is there, or ended as it should
    _holding: bool = True
    _partner_done: bool = False
    _end: socket.socket | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.place is not None:
            self._end = socket.socket(fileno=self.place.descriptor)
            self._end.settimeout(self.place.patience_s)
            self._holding = self.place.place == 0

    def take(self) -> None:
        """Wait until it is our turn; at once where we have it, or nobody else is there."""
        if not self._holding:
            self._hear()

    def after_round(self, done: int) -> None:
        """Hand over where the pattern says so: the first partner after rounds 1, 3, 5, ..., the second after 2, 4, 6, ..."""
        if self.place is not None and done % 2 != self.place.place:
            self.hand_over()

    def hand_over(self) -> None:
        """End this turn, where anybody waits for it."""
        if not self._partner_done:
            self._say(TURN)

    def finish(self) -> None:
        """Our rounds are done. Returns when the partner's are too: closing an engine would disturb the last of them."""
        self.take()
        self._say(DONE)
        if not self._partner_done and self._end is not None:
            self._hear()
        self._close()

    def _hear(self) -> None:
        """Wait for a word of the partner. With it, or without a partner, the turn is ours."""
        if self._end is not None:
            began = time.monotonic()
            try:
                word = self._end.recv(1)
                reason = "" if word else _GONE
            except TimeoutError:
                word, reason = b"", f"its partner did not end its turn within {self._end.gettimeout():g} s"
            except OSError:
                word, reason = b"", _GONE
            self.waited_s += time.monotonic() - began
            self._partner_done = word == DONE
            if reason:
                self._leave(reason)
        self._holding = True

    def _say(self, word: bytes) -> None:
        if self._end is None or not self._holding:
            return
        try:
            self._end.sendall(word)
        except OSError:
            if not self._partner_done:
                self._leave(_GONE)
            return
        self._holding = False

    def _leave(self, reason: str) -> None:
        self.left_alone = reason
        self._close()
        self._holding = True

    def _close(self) -> None:
        if self._end is not None:
            self._end.close()
            self._end = None
