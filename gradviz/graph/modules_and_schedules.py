"""What a program did with modules, data and learning rates that no torch call shows: states loaded, keys that name
nothing, attributes set, modules repeated, schedules and data loaders made."""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from gradviz.graph.bounded_types import Count, Index, LineNumber, Number


class StateLoad(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """A call of ``load_state_dict(..., strict=False)`` that did not raise."""

    module: Count
    """The same number for the same module."""
    class_name: str
    call_site: Index | None = None
    """Index in `CallLog.call_sites`."""
    given: Count = 0
    """Keys that it was given."""
    missing_count: Count = 0
    """Parameters and buffers for which there was no key."""
    unexpected_count: Count = 0
    """Keys for which there was no parameter or buffer."""
    missing: tuple[str, ...] = ()
    """The first of these names."""
    unexpected: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()
    """Unexpected keys whose values are dicts."""


class UnknownKeys(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """A call of ``functional_call()`` that was given keys which name nothing that its module has."""

    class_name: str
    """Of the module."""
    keys: tuple[str, ...]
    owners: tuple[str, ...] = ()
    """For each key, the class of the module inside that would have it."""
    call_site: Index | None = None
    """Index in `CallLog.call_sites`."""
    names: tuple[str, ...] = ()
    """The first parameters and buffers of the module for which there was no key."""


class IdleAttribute(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """A switch that torch does not know, set on a module or parameter: ``module.requires_grad = False``."""

    name: str
    value: bool
    owner: str
    """Path of the module, or name of the parameter."""
    is_of_module: bool = False
    tensors: tuple[Index, ...] = ()
    """The parameters that it is about."""
    lines: tuple[tuple[str, LineNumber], ...] = ()
    """Files and lines of the program that set an attribute with this name."""


class RepeatedModule(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """One module with parameters at several places of one ``Sequential``, ``ModuleList``, ``ModuleDict`` or module."""

    path: str
    """Of the container; empty if it has no name."""
    class_name: str
    """Of the container."""
    repeated: str
    """Class of the module."""
    count: Count
    """How often it is there."""
    size: Count
    """How many modules the container has."""
    call_site: Index | None = None
    """Index in `CallLog.call_sites` of the line that made the container."""
    tensors: tuple[Index, ...] = ()
    """Parameters of the module."""
    is_of_names: bool = False
    """Whether the places are attributes of a module that is no such container."""


NAMED_LIKE_A_SCHEDULE = re.compile(r"sched|warm|lr(?![a-z])|plateau|anneal|cosine|decay", re.IGNORECASE)
"""What is in the names of variables that hold a schedule of learning rates."""


class Schedule(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """A schedule of learning rates from torch that was made while an optimizer stepped later."""

    class_name: str
    optimizer: Index
    """Index in `CallLog.optimizers`."""
    call_site: Index | None = None
    """Index in `CallLog.call_sites` of the line that made it."""
    looks: Count = 0
    """Steps of any optimizer at which it was looked at."""
    has_moved: bool = False
    """Whether its count of steps was another one at one of these, or at the end."""
    idle_moves: Count = 0
    """Looks at which it had moved, though its optimizer had not stepped since it moved before."""
    is_alive: bool = False
    """Whether it was still alive at the end, so that its last step would have been seen."""
    is_stepped_in_source: bool = False
    """Whether some line of the program's own files calls ``step()`` of the variable that holds it, or of one that is
    named like a schedule: that line may not have been reached."""
    base_rate: Number | None = None
    """The learning rate of the first group that its factors multiply."""
    first_rate: Number | None = None
    """What it made of it when it was made."""
    peak_rate: Number | None = None
    """The highest that it made of it, if the same or a lower one followed; None as long as it only rises."""
    length: Count | None = None
    """The steps that it was made for: ``total_steps``, ``T_max`` or ``total_iters``."""
    moves: Count | None = None
    """How often it was stepped, as far as it was looked at."""
    optimizer_steps: Count = 0
    """Steps of its optimizer since it was made, up to the last look."""
    mode: Literal["min", "max"] | None = None
    """For a schedule that waits for a plateau, what it takes for better."""
    readings: tuple[tuple[Index | None, Number], ...] = ()
    """The first numbers that such a schedule was told, with indexes in `CallLog.call_sites`."""
    first_factor: Number | None = None
    """For a schedule that goes from one factor to another one, ``LinearLR``, the first of the two."""
    last_factor: Number | None = None
    milestones: tuple[Count, ...] = ()
    """For a schedule that multiplies the rate with a number, the steps at which it does: all of ``MultiStepLR``, the
    first of ``StepLR`` and ``ExponentialLR``, which go on at its multiples."""
    gamma: Number | None = None
    """That number."""
    replaced: tuple[Number, Number] | None = None
    """The first learning rate of a step that something else had set, and the one that this schedule put in its place,
    computed from what it had made before."""
    replaced_after: Count = 0
    """For how many of its moves in a row something else had set the rate by then: many, of a line that sets it anew
    after each move until its own part is over."""
    held_counts: tuple[Count, ...] = ()
    """The whole numbers that its functions hold, for one that is made with functions of the step, ``LambdaLR``."""
    fractions: tuple[Number, ...] = ()
    """The first counts of its steps that were no whole numbers: its ``step()`` was told them."""
    first_count: Count | None = None
    """Its count of steps at the first step of an optimizer: more than 0 where it goes on from an earlier run."""


class MadeLoader(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """A ``DataLoader`` that was made."""

    call_site: Index | None = None
    """Index in `CallLog.call_sites` of the line that made it."""
    is_in_order: bool = False
    """Whether it gives the samples of its data set in the order of their indexes: it was told neither to shuffle nor
    any sampler."""
    weights: Count | None = None
    """For a ``WeightedRandomSampler``, how many weights it has: it draws indexes below this number."""
    samples: Count | None = None
    """For such a sampler, or a part of a data set, the length of the data set."""
