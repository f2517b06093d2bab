"""`gradviz.watch(model)`: what it measures in a training, which it does not change."""

# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

import copy
import gc
import os
import pickle
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from math import isnan
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import gradviz
from gradviz.capture.run_log import RunLog, floats, integers
from gradviz.capture.run_log_file import load_run_log
from gradviz.errors import BadInput
from gradviz.recording.watch.model_watch import _watches
from tests.end_to_end.command import python, written_script


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "run.gradviz"
    for watching in list(_watches):
        watching.close()


def small_model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))


def train(model: nn.Module, steps: int) -> list[list[Tensor]]:
    """Gradients of all parameters at each step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for step in range(steps):
        optimizer.zero_grad()
        model(torch.arange(6.0).view(2, 3) + step).square().mean().backward()
        seen.append([parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None])
        optimizer.step()
    return seen


def steps_of(log: RunLog) -> list[int]:
    return [figures.step for figures in log.steps]


@contextmanager
def leaves_no_hook(model: nn.Module) -> Iterator[None]:
    yield
    assert not any(getattr(parameter, "_post_accumulate_grad_hooks", None) for parameter in model.parameters())


def test_the_first_and_every_tenth_step_are_noted_with_the_figures_of_grad(path: Path) -> None:
    model = small_model()
    with leaves_no_hook(model), gradviz.watch(model, every=10, to=path) as watching:
        gradients = train(model, 25)
    assert watching.steps == 25
    log = load_run_log(path)
    assert log.end is not None
    assert (steps_of(log), log.end.steps, log.cut) == ([1, 10, 20], 25, None)
    assert [parameter.name for parameter in log.header.parameters] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    for figures in log.steps:
        expected = gradients[figures.step - 1]
        assert list(floats(figures.norms)) == pytest.approx([float(each.norm()) for each in expected], rel=1e-6)
        assert list(integers(figures.zeros, 4)) == [int((each == 0).sum()) for each in expected]


def test_a_watched_training_ends_where_a_plain_one_does(path: Path) -> None:
    plain, watched = small_model(), small_model()
    state = torch.get_rng_state()
    expected = train(plain, 5)
    with gradviz.watch(watched, every=1, to=path):
        found = train(watched, 5)
    assert all(
        torch.equal(a, b) for one, other in zip(expected, found, strict=True) for a, b in zip(one, other, strict=True)
    )
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), watched.parameters(), strict=True))
    assert torch.equal(state, torch.get_rng_state())


def test_nan_and_inf_are_counted_and_a_parameter_without_a_gradient_has_no_norm(path: Path) -> None:
    model: Any = nn.ModuleDict({"used": nn.Linear(2, 1), "unused": nn.Linear(2, 1)})
    with gradviz.watch(model, to=path):
        model["used"](torch.tensor([[float("nan"), float("inf")]])).sum().backward()
    (figures,) = load_run_log(path).steps
    assert list(integers(figures.nans, 4)) == [1, 0, 0, 0]
    assert list(integers(figures.infs, 4)) == [1, 0, 0, 0]
    assert [isnan(norm) for norm in floats(figures.norms)] == [True, False, True, True]


def test_gradients_accumulate_and_each_backward_call_is_a_step(path: Path) -> None:
    model = nn.Linear(1, 1, bias=False)
    with gradviz.watch(model, every=2, to=path):
        for _ in range(4):
            model(torch.ones(1, 1)).sum().backward()
    log = load_run_log(path)
    assert [(figures.step, *floats(figures.norms)) for figures in log.steps] == [(1, 1.0), (2, 2.0), (4, 4.0)]


@pytest.mark.parametrize("has_head", [True, False])
def test_reentrant_checkpoints_are_part_of_the_call_that_runs_them(path: Path, has_head: bool) -> None:
    blocks, head = nn.ModuleList(nn.Linear(3, 3) for _ in range(3)), nn.Linear(3, 3)
    model = nn.ModuleList([blocks, head] if has_head else [blocks])
    with gradviz.watch(model, every=2, to=path) as watching:
        for _ in range(5):
            x = torch.ones(2, 3, requires_grad=True)
            for block in blocks:
                x = checkpoint(block, x, use_reentrant=True)
            (head(x) if has_head else x).sum().backward()
    assert watching.steps == 5
    assert steps_of(load_run_log(path)) == [1, 2, 4]
    assert not any(isnan(norm) for figures in load_run_log(path).steps for norm in floats(figures.norms))


def test_grad_and_other_models_are_no_steps(path: Path) -> None:
    model, other = small_model(), small_model()
    with gradviz.watch(model, to=path) as watching:
        train(other, 2)
        torch.autograd.grad(model(torch.ones(1, 3)).sum(), list(model.parameters()))
        train(model, 1)
    assert watching.steps == 1


def test_a_hook_that_takes_the_gradient_away_costs_only_that_parameter(path: Path) -> None:
    model = small_model()
    taken: Any = model[0].weight

    def apply_and_drop(parameter: Tensor) -> None:
        parameter.grad = None

    taken.register_post_accumulate_grad_hook(apply_and_drop)
    with gradviz.watch(model, to=path):
        model(torch.ones(2, 3)).sum().backward()
    (figures,) = load_run_log(path).steps
    assert figures.unmeasured == {"a hook had taken it away": (0,)}


def test_the_factor_of_a_gradient_scaler_is_divided_out(path: Path) -> None:
    class Scaler:
        def get_scale(self) -> float:
            return 1024.0

    model = nn.Linear(1, 1, bias=False)
    with gradviz.watch(model, to=path, scaler=Scaler()):
        (model(torch.ones(1, 1)).sum() * 1024).backward()
    log = load_run_log(path)
    assert log.header.is_unscaled
    assert list(floats(log.steps[0].norms)) == [1.0]


def test_frozen_and_sparse_parameters_and_wrappers_are_known(path: Path) -> None:
    model = nn.Sequential(nn.Embedding(10, 2, sparse=True), nn.Linear(2, 1))
    model[1].bias.requires_grad_(False)
    with gradviz.watch(nn.DataParallel(model), to=path):
        model(torch.tensor([3])).sum().backward()
    log = load_run_log(path)
    assert log.header.frozen == ("1.bias",)
    assert [parameter.name for parameter in log.header.parameters] == ["0.weight", "1.weight"]
    assert integers(log.steps[0].zeros, 2)[0] == 18


def test_nothing_of_the_model_is_kept_alive_and_copies_of_it_are_not_watched(path: Path) -> None:
    model: Any = small_model()
    gradviz.watch(model, to=path)
    train(model, 1)
    twin = copy.deepcopy(model)
    with leaves_no_hook(twin), leaves_no_hook(pickle.loads(pickle.dumps(model))):
        pass
    alive = [weakref.ref(model), *(weakref.ref(parameter) for parameter in model.parameters())]
    del model
    gc.collect()
    assert not any(reference() for reference in alive)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (nn.ReLU(), {}, "this ReLU has no parameters: there is nothing to watch"),
        (nn.Linear(1, 1).requires_grad_(False), {}, "this Linear has no parameter that requires a gradient"),
        (nn.LazyLinear(1), {}, "this LazyLinear has lazy parameters"),
        (torch.ones(1), {}, "watch() takes a model, not an object of type Tensor"),
        (nn.Linear(1, 1), {"every": 0}, "every=0 is not a number of steps from 1 on"),
        (nn.Linear(1, 1), {"every": 2.5}, "every=2.5 is not a number of steps from 1 on"),
        (nn.Linear(1, 1), {"every": True}, "every=True is not a number of steps from 1 on"),
        (nn.Linear(1, 1), {"every": 1 << 63}, "every=9223372036854775808 is not a number of steps from 1 on"),
        (nn.Linear(1, 1), {"tensorboard": 3}, "tensorboard=3 is not the path of a folder"),
        (nn.Linear(1, 1), {"tensorboard": ""}, "tensorboard='' is not the path of a folder"),
        (nn.Linear(1, 1), {"to": "run.log"}, "to='run.log': a run log's name ends in .gradviz"),
        (nn.Linear(1, 1), {"to": "a\0.gradviz"}, "cannot write 'a\\x00.gradviz': it has a zero byte"),
        (nn.Linear(1, 1), {"to": 3}, "to= takes the path of a file, not an object of type int"),
        (nn.Linear(1, 1), {"to": "/dev/null/run.gradviz"}, "cannot write '/dev/null/run.gradviz': Not a directory"),
        (nn.Linear(1, 1), {"scaler": 2.0}, "scaler= takes a torch.amp.GradScaler, not an object of type float"),
    ],
)
def test_what_cannot_be_watched_is_refused_in_one_line(
    path: Path, model: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInput) as caught:
        gradviz.watch(model, **{"to": path, **options})
    assert str(caught.value).startswith(message)
    assert not _watches


def test_a_model_that_is_watched_cannot_be_watched_again_until_that_is_closed(path: Path) -> None:
    model = small_model()
    first = gradviz.watch(model, to=path)
    with pytest.raises(BadInput, match=r"this Linear, or a part of it, is watched already; close\(\) the other"):
        gradviz.watch(model[0], to=path)
    first.close()
    first.close()
    gradviz.watch(model[0], to=path).close()


def test_a_watched_model_can_be_converted_by_swaps_and_the_log_says_what_is_not_measured_then(path: Path) -> None:
    model = small_model()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        with gradviz.watch(model, every=1, to=path):
            train(model, 1)
            model.double()
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    end = load_run_log(path).end
    assert end is not None
    (told,) = end.disclosures
    assert "gradients that 0.weight and 3 others got at the end were not measured" in told


def test_two_watches_never_write_the_same_run_log(path: Path) -> None:
    generator, discriminator = small_model(), small_model()
    first = gradviz.watch(generator, to=path)
    link = path.with_name("link.gradviz")
    link.symlink_to(path)
    for same in (path, link):
        with pytest.raises(BadInput, match=rf"another watch writes {same.name} already; give this one another file"):
            gradviz.watch(discriminator, to=same)
    first.close()
    gradviz.watch(discriminator, to=path).close()


def test_a_full_disk_is_reported_once_and_training_goes_on(tmp_path: Path, path: Path) -> None:
    full = tmp_path / "full.gradviz"
    full.symlink_to("/dev/full")
    model, plain = small_model(), small_model()
    watching = gradviz.watch(model, every=1, to=full)
    with pytest.warns(RuntimeWarning, match=r"could not be written, and gets no more: No space left on device") as told:
        found = train(model, 4)
        watching.close()
    assert len(told) == 1
    assert all(torch.equal(a, b) for a, b in zip(found[-1], train(plain, 4)[-1], strict=True))


def test_a_defect_of_ours_is_reported_in_the_log_and_training_goes_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small_model()
    with gradviz.watch(model, every=1, to=path):
        train(model, 1)
        monkeypatch.setattr("gradviz.recording.backward.gradients.gradient_meter.GradientMeter.take", lambda *_: 1 / 0)
        train(model, 1)
    end = load_run_log(path).end
    assert end is not None
    assert end.disclosures == ("4 times something could not be measured: ZeroDivisionError: division by zero",)


def test_a_forked_child_writes_nothing_into_the_log_of_its_parent(path: Path) -> None:
    model = small_model()
    with gradviz.watch(model, every=1, to=path):
        train(model, 2)
        child = os.fork()
        if child == 0:
            try:
                train(model, 3)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        train(model, 1)
    log = load_run_log(path)
    assert (steps_of(log), log.cut) == ([1, 2, 3], None)


LONG_RUN = """
import gradviz, os, torch
model = torch.nn.Linear(2, 1)
gradviz.watch(model, every=1)
for step in range(20):
    model(torch.ones(1, 2)).sum().backward()
{end}
"""


@pytest.mark.parametrize(("end", "steps"), [("", 20), ("raise ValueError", 20), ("os.kill(os.getpid(), 9)", 19)])
def test_a_program_that_closes_nothing_leaves_a_log_however_it_ends(tmp_path: Path, end: str, steps: int) -> None:
    python(written_script(tmp_path, LONG_RUN.format(end=end)), cwd=tmp_path)
    log = load_run_log(tmp_path / "run.gradviz")
    assert steps_of(log) == list(range(1, steps + 1))
    assert (log.end is None) == (steps == 19)
    assert log.cut is None


def test_tensorboard_reads_what_was_written_for_it(tmp_path: Path, path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    model = small_model()
    with gradviz.watch(model, every=2, to=path, tensorboard=tmp_path / "events"):
        train(model, 4)
    events = EventAccumulator(str(tmp_path / "events"))
    events.Reload()
    norms = [(event.step, event.value) for event in events.Scalars("gradient norm/2.weight")]
    assert norms == [(figures.step, pytest.approx(floats(figures.norms)[2])) for figures in load_run_log(path).steps]
    assert {tag.partition("/")[0] for tag in events.Tags()["scalars"]} == {
        "gradient norm", "gradient zeros", "gradient over weight",
    }  # fmt: skip


def test_tensorboard_that_is_not_installed_is_one_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(gradviz.MissingDependency, match=r"TensorBoard cannot be written: .*; pip install tensorboard"):
        gradviz.watch(small_model(), to=path, tensorboard="events")
    assert not _watches


def test_with_the_rank_in_its_name_every_rank_writes_a_run_log_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    model = small_model()
    with gradviz.watch(model, every=1, to=tmp_path / "run.rank%r.gradviz") as watching:
        train(model, 2)
    assert watching.path == tmp_path / "run.rank3.gradviz"
    assert steps_of(load_run_log(watching.path)) == [1, 2]
    assert [path.name for path in tmp_path.iterdir()] == ["run.rank3.gradviz"]
