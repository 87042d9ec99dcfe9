"""Paceline's engine: a batched tensor-parallel decoder of Qwen3 and Qwen3.5 models, and what it is configured with.

    with Session.open("synthetic:tiny", SessionOptions(mode="batch", tp=2)) as session:
        print(session.generate([[1, 2, 3], [4, 5]], max_new_tokens=8))

The names here are the public, versioned API: a harness of another commit measures this engine through them. Importing the
package loads neither the compiled module nor torch; the first session does the former.
"""

from engine.binding import API_VERSION, build_info
from engine.errors import (
    BindingError,
    CheckpointError,
    ConfigError,
    EngineClosed,
    EngineError,
    OutOfMemory,
    RequestFailed,
    RequestRefused,
)
from engine.handle import Generation, Handle
from engine.options import Sampling, SessionOptions
from engine.session import Session, SessionFacts, Stats

__all__ = [
    "API_VERSION",
    "BindingError",
    "CheckpointError",
    "ConfigError",
    "EngineClosed",
    "EngineError",
    "Generation",
    "Handle",
    "OutOfMemory",
    "RequestFailed",
    "RequestRefused",
    "Sampling",
    "Session",
    "SessionFacts",
    "SessionOptions",
    "Stats",
    "build_info",
]
