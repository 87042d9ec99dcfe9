"""What a kind of measurement works with: sessions of the engine under test, rounds, and the record that fills up."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Generic

from flows.measurements import nvml, slots
from flows.measurements.prompts import Prompt, draw_prompts
from flows.measurements.request import ExtraT, Request
from flows.measurements.rounds import quiet_collector, run_round
from flows.measurements.turns import Turns
from flows.measurements.under_test import UnderTest, open_session
from storage.records import EngineFacts, Occupancy, RoundSample, Spec

if TYPE_CHECKING:
    from engine import Session


class MeasurementError(RuntimeError):
    """A measurement that ran and found what must not be: it fails, and its figures are kept."""


class Bench(Generic[ExtraT]):
    """One measurement under way. What stands in its fields when it ends, well or badly, goes into the record."""

    def __init__(
        self, request: Request, extra: ExtraT, under_test: UnderTest, gpus: "nvml.Gpus | None", turns: Turns | None = None
    ) -> None:
        self.request = request
        self.extra = extra
        self.under_test = under_test
        self.gpus = gpus
        self.turns = turns or Turns()
        self.engine_facts: EngineFacts | None = None
        self.rounds: list[RoundSample] = []
        self.occupancy: Occupancy | None = None
        self.values: dict[str, float] = {}
        self.details: dict[str, Any] = {}
        self.invalid_because: list[str] = []

    @property
    def spec(self) -> Spec:
        """What was asked for."""
        return self.request.spec

    @contextmanager
    def session(self, *, mode: str | None = None, slot_count: int | None = None) -> "Iterator[Session]":
        """A session of the engine under test, as the spec has it but for what is given here; closed at the end."""
        spec, engine = self.spec, self.under_test.engine
        options = engine.SessionOptions(
            mode=mode or spec.mode,
            tp=spec.tp,
            slots=slot_count or spec.slots,
            context=spec.context,
            threads=spec.threads,
            devices=spec.devices,
            isa=self.extra.isa,
            prefill_rows=self.extra.prefill_rows,
        )
        started = time.monotonic()
        with open_session(engine, spec.checkpoint, options, self.request.cache) as session:
            say(f"{options.mode} session: {spec.checkpoint} on {spec.devices}, tp {spec.tp}, {time.monotonic() - started:.2f} s")
            if self.engine_facts is None:
                self.engine_facts = self._facts(session)
            yield session

    def prompts(self, session: "Session", round_index: int, count: int | None = None) -> list[Prompt]:
        """The prompts of a round, from the seed."""
        spec = self.spec
        return draw_prompts(spec.seed, round_index, count or spec.level, spec.prompt_tokens, session.facts.vocab_size)

    def round(self, session: "Session", index: int, *, warmup: bool = False, prompts_of: int | None = None) -> RoundSample:
        """One closed-loop round, kept in the record; its prompts are those of round `prompts_of`, or its own."""
        prompts = self.prompts(session, index if prompts_of is None else prompts_of)
        with ExitStack() as stack:
            watch = stack.enter_context(self.gpus.watch()) if self.gpus else None
            sample = run_round(session, prompts, self.spec.new_tokens, index=index, warmup=warmup)
        if watch is not None:
            sample = sample.model_copy(update={"energy_j": watch.energy_j, "throttled": watch.throttled})
            if not warmup:
                for name, mhz in watch.lowest.items():
                    self.values[f"{name}_lowest"] = min(mhz, self.values.get(f"{name}_lowest", mhz))
                for name, figure in watch.highest.items():
                    self.values[f"{name}_highest"] = max(figure, self.values.get(f"{name}_highest", figure))
        self.rounds.append(sample)
        flag = f" throttled: {', '.join(sample.throttled)}" if sample.throttled else ""
        say(f"round {index}{' (warm-up)' if warmup else ''}: {len(prompts)} requests in {sample.wall_s:.4f} s{flag}")
        return sample

    def warm_up(self, session: "Session") -> None:
        """The rounds that are dropped."""
        for index in range(self.spec.warmup):
            self.round(session, index, warmup=True)

    def kept_rounds(self, session: "Session") -> list[Occupancy]:
        """The rounds that are kept; returns the occupancy of each. Rounds and the occupancy of all go into the record."""
        spec = self.spec
        each: list[Occupancy] = []
        with quiet_collector():
            for done in range(spec.runs):
                self.turns.take()
                session.reset_peaks()
                before = session.stats()
                self.round(session, spec.warmup + done)
                each.append(slots.occupancy_between(before, session.stats()))
                if done + 1 < spec.runs:  # the last turn ends in finish()
                    self.turns.after_round(done + 1)
        self.occupancy = slots.merge(each)
        return each

    def invalid(self, reasons: list[str]) -> None:
        """State why the figures must not be used."""
        for reason in reasons:
            say(f"invalid: {reason}")
        self.invalid_because.extend(reasons)

    def _facts(self, session: "Session") -> EngineFacts:
        facts = session.facts
        return EngineFacts(
            api_version=self.under_test.api_version,
            build=self.under_test.build_info | {"manifest": self.under_test.manifest},
            module_sha256=self.under_test.module_sha256,
            isa=facts.isa,
            memory=session.memory(),
            checkpoint_digest=facts.checkpoint_digest,
            load_s=facts.load_seconds,
        )


def say(line: str) -> None:
    """One line of the measurement's log."""
    print(line, flush=True)
