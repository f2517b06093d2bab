"""What is said of the exchanges of gradients and parameters between ranks."""

from __future__ import annotations

from gradviz.graph.exchanges import Exchange
from gradviz.graph.number_words import byte_words, counted, seconds_words


def exchange_words(exchange: Exchange) -> str:
    """``all_reduce of bucket 0: the gradients of 4 parameters, 2.3 KiB``."""
    bucket = "" if exchange.bucket is None else f" of bucket {exchange.bucket}:"
    what = f"the gradients of {counted(exchange.parameters, 'parameter')}"
    if exchange.kind == "all_gather":
        what = counted(exchange.parameters, "sharded parameter")
    of = " " if bucket else " of "
    return f"{exchange.kind}{bucket}{of}{what}, {size_words(exchange)}"


def size_words(exchange: Exchange) -> str:
    """``2.3 KiB``; with a communication hook ``2.3 KiB, of which fp16_compress_hook makes 1.1 KiB``."""
    whole = byte_words(exchange.bytes)
    if not exchange.hook:
        return whole
    if exchange.sent is None:
        return f"{whole} before {exchange.hook}"
    return f"{whole}, of which {exchange.hook} makes {byte_words(exchange.sent)}"


def duration_words(exchange: Exchange) -> str:
    """``over within 9 ms, the last 4 ms of which backward waits``; empty if nothing tells."""
    if exchange.seconds is None:
        return ""
    waited = exchange.waited
    if waited is None:
        return f"over within {seconds_words(exchange.seconds)}"
    if waited >= exchange.seconds:
        return f"waited for {seconds_words(exchange.seconds)}"
    return f"over within {seconds_words(exchange.seconds)}, the last {seconds_words(waited)} of which backward waits"


def begin_words(exchange: Exchange, runs: int) -> str:
    """``begins after step 7 of 14``."""
    if exchange.is_in_forward:
        return "in the forward"
    if exchange.after is None:
        return "begins before the first step"
    return f"begins after step {exchange.after + 1:,} of {runs:,}"


def exchange_sentence(exchange: Exchange, runs: int) -> str:
    """``DistributedDataParallel: all_reduce of bucket 0: ..., begins after step 7 of 14``.

    It is for tooltips, which have no times: the picture of a program is the same whenever it runs.
    """
    return f"{exchange.by}: {exchange_words(exchange)}, {begin_words(exchange, runs)}"
