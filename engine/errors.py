"""What the engine raises. Every message names what was found, what would be right and, where there is one, the thing to do."""


class EngineError(Exception):
    """Base of everything the engine raises on purpose."""


class BindingError(EngineError):
    """The compiled module is missing, of another API version, or lacks something this Python side needs."""


class CheckpointError(EngineError):
    """A checkpoint folder that cannot be read as it stands: a missing, foreign, truncated or contradictory file or tensor."""


class ConfigError(EngineError):
    """A model or an option that the engine cannot serve. Names the field, its value and what is allowed."""


class RequestRefused(EngineError):
    """A request that can never run, or a full queue. Refused at submission, with the numbers; other requests are untouched."""


class RequestFailed(EngineError):
    """A request that was accepted and then broke: a native fault, or an `on_token` callback that raised (see `__cause__`)."""


class EngineClosed(EngineError):
    """The session was closed."""


class OutOfMemory(EngineError):
    """The engine does not fit: how much was needed, for what, and which option lowers it."""
