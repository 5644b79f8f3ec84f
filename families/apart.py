"""A verdict made in a process of its own: a family that crashes or hangs takes nothing with it."""

import multiprocessing
from multiprocessing.connection import Connection

from families.tiny import class_name
from families.verdict import Verdict, verdict

__all__ = ["SECONDS", "verdict_apart"]

#: How long a family may take.
SECONDS = 40.0


def verdict_apart(family: str, task: str, *, seconds: float = SECONDS) -> Verdict:
    """The verdict of one family, or that it took too long or crashed.

    Args:
        family: a model type of transformers.
        task: "causal", "masked" or "seq2seq".
        seconds: how long it may take.

    Returns:
        What came of it.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    mine, theirs = context.Pipe(duplex=False)
    worker = context.Process(target=_send, args=(theirs, family, task))
    worker.start()
    theirs.close()
    try:
        if mine.poll(seconds):
            return mine.recv()
        why = f"it took more than {seconds:g} seconds"
    except EOFError:
        worker.join()
        why = f"its process died, with exit code {worker.exitcode}"
    finally:
        worker.kill()
        worker.join()
    return Verdict(family, task, class_name(family, task), kind="not made", why=why)


def _send(pipe: Connection, family: str, task: str) -> None:
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    pipe.send(verdict(family, task))
