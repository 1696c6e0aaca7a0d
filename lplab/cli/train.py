"""``lplab train``: a model of the zoo under a recipe, from a terminal."""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from lplab.cli.command import DIVERGED, INTERRUPTED, BadInputError, add_command, bad_values, check_output, once
from lplab.cli.train_learners import add_learners, train_learners, wants_learners
from lplab.cli.training_run import deferred_sigint, reading_checkpoint

RECIPE = "hfp8_2019"  # the default


def add_train(commands: Any) -> None:
    """Add ``lplab train``."""
    text = "train a small model under a recipe; its formats are emulated in float32"
    parser = add_command(commands, run_train, "train", text, "lplab train --recipe hfp8_2019 --model mlp --steps 20")
    parser.add_argument("--recipe", help=f"default: {RECIPE}; --list shows all")
    parser.add_argument("--model", default="transformer", help="default: transformer; --list shows all")
    parser.add_argument("--steps", type=int, default=400, help="default: 400")
    parser.add_argument("--seed", type=int, default=0, help="of weights, batches and stochastic rounding (default: 0)")
    parser.add_argument("--lr", type=float, help="learning rate (default: the model's own)")
    parser.add_argument("--batch", type=int, help="examples a batch (default: the model's own)")
    parser.add_argument("--set", metavar="SWITCH=VALUE", action="append", default=[], help="a switch of the recipe")
    parser.add_argument("--record", type=Path, metavar="FILE", help="record every tenth step into an .npz file")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write a checkpoint at the end, or at Ctrl-C")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="go on from a checkpoint")
    parser.add_argument("--report", action="store_true", help="print at the end what was rounded how, and what was not")
    parser.add_argument("--list", action="store_true", help="list recipes with their switches, and models")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_learners(parser)


def run_train(args: argparse.Namespace) -> int:
    """Train with a progress bar on stderr, then print the result; a diverged training ends with code 1."""
    try:
        import torch  # noqa: F401
    except ImportError:
        raise BadInputError("training needs PyTorch: pip install 'lplab[torch]'") from None
    if args.list:
        return print_list(args.json)
    if args.steps < 1:
        raise BadInputError(f"--steps must be at least 1, got {args.steps}")
    if not 0 <= args.seed < 2**31:
        raise BadInputError(f"--seed must be from 0 to 2147483647, got {args.seed}")
    if wants_learners(args):
        if args.report:
            raise BadInputError("--report is about a recipe, and several learners train in float32: leave it out")
        return train_learners(args)
    args.recipe = RECIPE if args.recipe is None else args.recipe
    for path in (args.save, args.record):
        if path:
            check_output(path)
    try:
        with bad_values():
            trainer, task = make_trainer(args)
    except TypeError as problem:
        raise BadInputError(str(problem)) from None
    return run_training(args, trainer, task)


def make_trainer(args: argparse.Namespace) -> tuple[Any, Any]:
    """The trainer and the task that the arguments name."""
    from lplab.training import Recorder, recipes, tasks

    task = tasks.get(args.model)
    recipe = recipes.get(args.recipe, **once("--set", map(parse_switch, args.set)))
    recorder = Recorder(every=10) if args.record else None
    trainer = task.trainer(recipe, args.seed, batch=args.batch, lr=args.lr, recorder=recorder)
    if args.resume:
        with reading_checkpoint(args.resume, "this model and recipe"):
            trainer.load(args.resume)
    return trainer, task


def parse_switch(text: str) -> tuple[str, Any]:
    """Parse SWITCH=VALUE: the value is a number, true, false or none where it reads as one, else a word.

    >>> parse_switch("bits=2"), parse_switch("phases=single"), parse_switch("master_weights=false")
    (('bits', 2), ('phases', 'single'), ('master_weights', False))
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--set takes SWITCH=VALUE, got {text!r}")
    try:
        return name, json.loads(value.lower() if value.lower() in ("true", "false") else value)
    except json.JSONDecodeError:
        return name, None if value.lower() == "none" else value


def run_training(args: argparse.Namespace, trainer: Any, task: Any) -> int:
    """Train, save the checkpoint and the recording, print the result."""
    from lplab.training import DivergedError

    started, losses, code, stopped, is_whole = time.perf_counter(), [], 0, "", True
    try:
        with deferred_sigint() as interrupted:
            for step in steps_with_progress(trainer, args.steps):
                losses.append(step.loss)
                if interrupted.is_set():
                    code, stopped = INTERRUPTED, "stopped by Ctrl-C"
                    break
    except KeyboardInterrupt:
        code, stopped, is_whole = INTERRUPTED, "stopped by Ctrl-C in the middle of a step", False
    except DivergedError as problem:
        code, stopped, is_whole = DIVERGED, str(problem), False
    seconds = time.perf_counter() - started
    with bad_values():
        if args.save and is_whole:
            trainer.save(args.save)
        if args.record:
            from lplab.recordings.magnitudes import Recording

            Recording.of(trainer.recorder, f"{args.model} under {args.recipe}, seed {args.seed}").save(args.record)
    test = trainer.evaluate(*task.test()) if code == 0 else {}
    report(args, trainer, {"losses": losses, "seconds": seconds, "test": test, "stopped": stopped})
    return code


def steps_with_progress(trainer: Any, steps: int) -> Any:
    """The steps of the training, with a bar that shows the loss."""
    from tqdm import tqdm

    with tqdm(total=steps, unit="step", file=sys.stderr, desc=trainer.recipe.name) as bar:
        for step in trainer.steps(steps):
            bar.set_postfix_str(f"loss {step.loss:.4f}", refresh=False)
            bar.update()
            yield step


def report(args: argparse.Namespace, trainer: Any, result: dict[str, Any]) -> None:
    """Print the result: a few lines, or JSON."""
    from lplab.training import recipe_report

    if args.json:
        about = {"recipe": args.recipe, "model": args.model, "seed": args.seed, "steps": trainer.step}
        rounded = {"report": [vars(row) for row in recipe_report(trainer.model).rows]} if args.report else {}
        print(json.dumps(about | result | {"stopped": result["stopped"] or None} | rounded))
        return
    if result["stopped"]:
        print(result["stopped"])
    losses = result["losses"]
    if losses:
        tail = losses[-max(1, len(losses) // 10) :]
        print(f"{args.model} under {args.recipe}, {len(losses)} steps in {result['seconds']:.1f} s")
        print(f"training loss  {losses[0]:.4f} → {sum(tail) / len(tail):.4f} nats (mean of the last tenth)")
    for name, value in result["test"].items():
        shown = f"{value:.4f} nats" if name == "loss" else f"{value:.1%}"
        print(f"test {name:<9} {shown}")
    if args.report:
        print(f"\n{recipe_report(trainer.model)}")


def print_list(as_json: bool) -> int:
    """Print the recipes with their switches, and the models."""
    from lplab.training import recipes, tasks

    switches = {name: recipes.switches_of(name) for name in recipes.names()}
    about = {name: task.about for name, task in tasks.TASKS.items()}
    if as_json:
        print(json.dumps({"recipes": switches, "models": about}, indent=1, ensure_ascii=False))
        return 0
    for name, values in switches.items():
        print(f"{name:<16}{', '.join(f'{key}={value}' for key, value in values.items())}")
    print()
    for name, text in about.items():
        print(f"{name:<16}{text}")
    return 0
