"""The command line: one verb per stage of the workflow, and verbs for people."""

import argparse
import os
import stat
import sys
import textwrap

from koct import __version__
from koct.base import failures
from koct.base.messages import nearest
from koct.commands import VERBS
from koct.commands.people import GROUPS
from koct.errors import KoctError


def main(argv=None):
    """The exit status: 0, 1 where a verb's answer is no, or one of `koct.base.failures`."""
    failures.show_anything()
    argv = list(sys.argv[1:] if argv is None else argv)
    written = {}
    try:
        arguments = _parse(argv)
        verb = arguments.pop("verb")
        read, written = _files(verb, arguments)
        _check_files(read, written)
        _guard(arguments["name"] if verb == "product" else verb, arguments.get("spec"))
        status = _run(VERBS[verb][0], arguments)
        return failures.unwritten() or status
    except (Exception, KeyboardInterrupt) as error:
        return failures.ended(error, written)


def _parse(argv):
    plumbing = argv[:1] == ["job"]
    argv = argv[1:] if plumbing else argv
    if argv[:1] in ([], ["-h"], ["--help"]) and (argv or plumbing):
        print(_help(plumbing), end="")
        raise SystemExit(failures.unwritten())
    if argv and not argv[0].startswith("-") and argv[0] not in VERBS:
        meant = f"did you mean {near}? " if (near := nearest(argv[0], VERBS)) else ""
        raise KoctError(f"{argv[0][:100]!r} is no verb; {meant}`koct --help` shows what to write")
    try:
        return vars(_parser(argv[0] if argv and argv[0] in VERBS else None).parse_args(argv))
    except SystemExit:  # a mistake, or a question: its answer is printed
        if status := failures.unwritten():
            raise SystemExit(status) from None
        raise


def _run(function, arguments):
    try:
        return function(**arguments) or 0
    except SystemExit as end:
        raise KoctError(f"a Python file of yours ended the command with sys.exit({end.code!r}); remove that") from None


OUTPUTS = ("out", "outputs", "plot")  # the arguments of a verb that it writes to; others that are files, it reads


def _files(verb, arguments):
    """({path: argument} that a verb reads, the same that it writes)."""
    read, written = {}, {}
    for name, settings in VERBS[verb][2]:
        if settings.get("metavar") in ("FILE", "NETWORK.yaml", "FILE.py"):
            key = name.lstrip("-").replace("-", "_")
            given = arguments[key] if isinstance(arguments[key], list) else [arguments[key]]
            kind = written if key in OUTPUTS else read
            for path in given:
                if path in kind and kind is written:
                    raise KoctError(f"{name} {path}: the command writes this file twice; give another name")
                if path is not None:
                    kind[path] = name
    return read, written


def _check_files(read, written):
    """Refuse, before anything is computed, names that no file can have and places where none can be written."""
    for path, name in (read | written).items():
        try:
            usable = bool(path) and b"\0" not in path.encode()
        except UnicodeEncodeError:
            usable = False
        if not usable:
            raise KoctError(f"{name} {path!r} is not the name of a file; give one in UTF-8")
    for path, name in read.items():
        real = os.path.realpath(path)
        if _is_pipe(real) and not real.startswith(("/dev/", "/proc/")):  # where shells put the output of commands
            raise KoctError(f"{name} {path} is a pipe, whose other end may never come; give a file")
    inputs = {os.path.realpath(path): name for path, name in read.items()}
    for path, name in written.items():
        real = os.path.realpath(path)
        if real in inputs:
            raise KoctError(f"{name} {path}: the command reads this file as {inputs[real]}; give another name")
        if os.path.isdir(real) or path.endswith("/"):
            raise KoctError(f"{name} {path} is a folder; give the path of a file")
        folder = os.path.dirname(real)
        while not os.path.lexists(folder):
            folder = os.path.dirname(folder)
        if not os.path.isdir(folder):
            raise KoctError(f"{name} {path}: {folder} is not a folder; choose another place")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise KoctError(f"{name} {path}: nothing can be written to {folder}; choose another place")


def _is_pipe(path):
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:
        return False


def _guard(stage, spec):
    """Before a job of the workflow starts, and before it writes: is its code still what was planned?"""
    if spec and "code" in spec:
        from koct.base import stamps
        from koct.workflow.planned import Guard

        stamps.guard = Guard(stage, spec)
        stamps.guard()


class _Parser(argparse.ArgumentParser):
    """A mistake is one sentence."""

    def error(self, message):
        self.exit(failures.MISTAKE, f"koct: error: {message[:1000]}; `{self.prog} --help` shows what to write\n")


def _help(plumbing):
    """The verbs for people in groups with an example each, or those of the workflow's jobs."""
    if plumbing:
        verbs = {verb: VERBS[verb][1] for verb in VERBS if not any(verb in group for group, _ in GROUPS.values())}
        return "usage: koct job VERB ...\n\nWhat the rules of the workflow call:\n" + _listed(verbs)
    text = "usage: koct VERB ...\n\nHow many training samples does a network need?\n"
    for title, (verbs, example) in GROUPS.items():
        text += f"\n{title}:\n{_listed({verb: VERBS[verb][1] for verb in verbs})}    $ {example}\n"
    return text + "\n`koct VERB --help` has the arguments; `koct job --help` lists what the workflow calls.\n"


def _listed(verbs):
    return "".join(
        textwrap.fill(does, 80, initial_indent=f"  {verb:16}", subsequent_indent=" " * 18) + "\n"
        for verb, does in verbs.items()
    )


def _parser(only=None):
    """The parser of all verbs, or of the one that was asked for, which starts sooner."""
    parser = _Parser(prog="koct", description="How many training samples does a network need?")
    parser.add_argument("--version", action="version", version=f"koct {__version__}")
    commands = parser.add_subparsers(metavar="VERB", required=True)
    for verb in [only] if only else VERBS:
        _, does, arguments = VERBS[verb]
        command = commands.add_parser(verb, help=does, description=does)
        command.set_defaults(verb=verb)
        for name, settings in arguments:
            command.add_argument(name, **({"required": True} if name.startswith("-") else {}) | settings)
    return parser
