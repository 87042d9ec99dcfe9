"""What can go wrong with the results store. Every message names the file and what would be right."""


class StoreError(RuntimeError):
    """The store could not be opened, written or published."""


class StoreBusy(StoreError):
    """Another process held the store open for writing until the deadline had passed."""


class StoreTooNew(StoreError):
    """The store was written by a newer paceline than this one."""


class StoreMissing(StoreError):
    """There is no store at the path that was asked for."""
