"""What is said of the exchanges of gradients and parameters between ranks."""

from __future__ import annotations

from gradviz.graph.exchanges import Exchange
from gradviz.graph.number_words import byte_words, counted


def exchange_words(exchange: Exchange) -> str:
    """``all_reduce of bucket 0: the gradients of 4 parameters, 2.3 KiB``."""
    bucket = "" if exchange.bucket is None else f" of bucket {exchange.bucket}:"
    what = f"the gradients of {counted(exchange.parameters, 'parameter')}"
    if exchange.kind == "all_gather":
        what = counted(exchange.parameters, "sharded parameter")
    of = " " if bucket else " of "
    hook = f" before {exchange.hook}" if exchange.hook else ""
    return f"{exchange.kind}{bucket}{of}{what}, {byte_words(exchange.bytes)}{hook}"


def begin_words(exchange: Exchange, runs: int) -> str:
    """``begins after step 7 of 14``."""
    if exchange.is_in_forward:
        return "in the forward"
    if exchange.after is None:
        return "begins before the first step"
    return f"begins after step {exchange.after + 1:,} of {runs:,}"


def exchange_sentence(exchange: Exchange, runs: int) -> str:
    """``DistributedDataParallel: all_reduce of bucket 0: ..., begins after step 7 of 14``."""
    return f"{exchange.by}: {exchange_words(exchange)}, {begin_words(exchange, runs)}"
