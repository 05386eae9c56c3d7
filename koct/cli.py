"""The command line: one verb per stage of the workflow, and verbs for people."""

import argparse
import contextlib
import os
import sys
import textwrap
from pathlib import Path

from koct import __version__
from koct.base import failures, stamps
from koct.base.device import failures_explained
from koct.base.messages import nearest
from koct.commands import VERBS
from koct.commands.people import EXAMPLES, JOBS
from koct.errors import KoctError
from koct.workflow import planned


def main(argv=None):
    """The exit status: 0, 1 where a verb's answer is no, or one of `koct.base.failures`."""
    with contextlib.suppress(AttributeError):
        sys.stdout.reconfigure(errors="replace")  # a question mark where a terminal lacks a letter
    written = {}
    try:
        arguments = _parse(list(sys.argv[1:] if argv is None else argv))
        verb = arguments.pop("verb")
        written = _checked_files(verb, arguments)
        if "code" in (spec := arguments.get("spec") or {}):
            # before a job of the workflow starts, and before it writes: is its code still what was planned?
            stamps.guard = planned.Guard(arguments["name"] if verb == "product" else verb, spec)
            stamps.guard()
        status = _run(VERBS[verb][0], arguments)
        return failures.unwritten() or status
    except SystemExit as end:  # of the parser: a mistake, or a question whose answer is printed
        return failures.unwritten() or end.code
    except (Exception, KeyboardInterrupt) as error:
        return failures.ended(error, written)


def _parse(argv):
    plumbing = argv[:1] == ["job"]
    argv = argv[1:] if plumbing else argv
    if argv[:1] in ([], ["-h"], ["--help"]) and (argv or plumbing):
        print(_help(plumbing), end="")
        raise SystemExit(0)
    if argv and not argv[0].startswith("-") and argv[0] not in VERBS:
        meant = f"did you mean {near}? " if (near := nearest(argv[0], VERBS)) else ""
        raise KoctError(f"{argv[0][:100]!r} is no verb; {meant}`koct --help` shows what to write")
    return vars(_parser(argv[0] if argv and argv[0] in VERBS else None).parse_args(argv))


def _run(function, arguments):
    try:
        with failures_explained():
            return function(**arguments) or 0
    except SystemExit as end:
        raise KoctError(f"a Python file of yours ended the command with sys.exit({end.code!r}); remove that") from None


OUTPUTS = ("out", "outputs", "plot")  # the arguments of a verb that it writes to; others that are files, it reads


def _checked_files(verb, arguments):
    """The files that a verb writes; those that it cannot write or read are refused before anything is computed."""
    read, written = {}, {}  # the option of a path
    for name, settings in VERBS[verb][2]:
        if settings.get("metavar") in ("FILE", "NETWORK.yaml", "FILE.py"):
            key = name.lstrip("-").replace("-", "_")
            given = arguments[key] if isinstance(arguments[key], list) else [arguments[key]]
            for path in (path for path in given if path is not None):
                if key in OUTPUTS and path in written:
                    raise KoctError(f"{name} {path}: the command writes this file twice; give another name")
                (written if key in OUTPUTS else read)[path] = name
    inputs = {os.path.realpath(path): name for path, name in read.items()}
    for path, name in inputs.items():
        if Path(path).is_fifo() and not path.startswith(("/dev/", "/proc/")):  # where shells put the output of commands
            raise KoctError(f"{name} {path} is a pipe, whose other end may never come; give a file")
    for path, name in written.items():
        real = os.path.realpath(path)
        if real in inputs:
            raise KoctError(f"{name} {path}: the command reads this file as {inputs[real]}; give another name")
        if os.path.isdir(real) or path.endswith("/"):
            raise KoctError(f"{name} {path} is a folder; give the path of a file")
        folder = next(above for above in Path(real).parents if os.path.lexists(above))
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            raise KoctError(f"{name} {path}: nothing can be written to {folder}; choose another place")
    return written


class _Parser(argparse.ArgumentParser):
    """A mistake is one sentence."""

    def error(self, message):
        if planned.STATE in os.environ and not planned.unchanged():  # a job whose rule other code wrote
            self.exit(failures.MISTAKE, f"koct: error: {planned.CHANGED}\n")
        self.exit(failures.MISTAKE, f"koct: error: {message[:1000]}; `{self.prog} --help` shows what to write\n")


def _help(plumbing):
    """The verbs for people in groups with an example each, or those of the workflow's jobs."""
    if plumbing:
        return f"usage: koct job VERB ...\n\n{JOBS}:\n{_listed(JOBS)}"
    text = "usage: koct VERB ...\n\nHow many training samples does a network need?\n"
    for group, example in EXAMPLES.items():
        text += f"\n{group}:\n{_listed(group)}    $ {example}\n"
    return text + "\n`koct VERB --help` has the arguments; `koct job --help` lists what the workflow calls.\n"


def _listed(group):
    """The verbs of a group, with what they do."""
    return "".join(
        textwrap.fill(does, 80, initial_indent=f"  {verb:18}", subsequent_indent=" " * 20) + "\n"
        for verb, (_, does, _, of) in VERBS.items()
        if of == group
    )


def _parser(only=None):
    """The parser of all verbs, or of the one that was asked for, which starts sooner."""
    parser = _Parser(prog="koct", description="How many training samples does a network need?")
    parser.add_argument("--version", action="version", version=f"koct {__version__}")
    commands = parser.add_subparsers(metavar="VERB", required=True)
    for verb in [only] if only else VERBS:
        _, does, arguments, _ = VERBS[verb]
        command = commands.add_parser(verb, help=does, description=does)
        command.set_defaults(verb=verb)
        for name, settings in arguments:
            command.add_argument(name, **({"required": True} if name.startswith("-") else {}) | settings)
    return parser
