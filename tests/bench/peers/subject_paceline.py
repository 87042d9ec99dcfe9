"""This project's engine as a subject: TP1, all requests of a round submitted at once. Run by bench_peers.py."""

import sys
from pathlib import Path

from workload import NEW, PROMPT, Prompts, answer, read_request

ROOT = Path(__file__).resolve().parents[3]


def main() -> None:
    """Raises RuntimeError when Python finds the engine of another tree than this file's."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in type(finder).__module__]  # may name another tree
    sys.path.insert(0, str(ROOT))
    import engine
    from engine import Session, SessionOptions

    if ROOT not in Path(engine.__file__).resolve().parents:
        raise RuntimeError(f"engine: found {engine.__file__}, expected it below {ROOT}")
    request = read_request()
    options = SessionOptions(mode="batch", tp=1, slots=max(request.widths), context=PROMPT + NEW)
    with Session.open(request.model, options) as session:
        facts = session.facts

        def generate(asked: Prompts) -> list[list[int]]:
            return [list(one.tokens) for one in session.generate(asked, NEW)]

        settings = {"isa": facts.isa, "threads": facts.threads_per_rank, "tp": facts.tp}
        answer("paceline", settings, request, facts.vocab_size, generate)


if __name__ == "__main__":
    main()
