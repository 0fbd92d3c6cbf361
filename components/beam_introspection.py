"""Remembers what Beam's runner would find out anew for every step.

    install()       # once a process, before a pipeline is built

Building, fusing and running a pipeline of a few hundred steps, Beam 2.77
inspects the same DoFn classes, builds the same option parsers and goes through
all loaded modules thousands of times: most of the time of StatisticsGen and
Transform on small data. The answers do not change while a process runs. What this returns
is what Beam returns; another version of Beam is left as it is.
"""

from __future__ import annotations

import copy
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

import apache_beam
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.options import pipeline_options
from apache_beam.runners.worker import statecache
from apache_beam.transforms import core, userstate

VERSION = "2.77.0"
"""Of Beam; the only one that this was measured with and is tested against."""

Specs = tuple[set[Any], set[Any]]
SPECS = userstate.get_dofn_specs
OPTIONS = pipeline_options.PipelineOptions.__init__
SUBMODULES = cloudpickle._find_imported_submodules
DEEP_SIZE = statecache.get_deep_size
"""Beam's own."""

_installed = False


def install() -> bool:
    """Puts the answers into Beam's place; returns whether they are (another version is left alone)."""
    global _installed
    if apache_beam.__version__ != VERSION:
        return False
    if not _installed:
        userstate.get_dofn_specs = remembered_specs(SPECS)
        pipeline_options.PipelineOptions.__init__ = remembered_options(OPTIONS)
        cloudpickle._find_imported_submodules = ModuleIndex().submodules
        statecache.get_deep_size = GlobalsIndex().deep_size
        _installed = True
    return True


def remembered_specs(original: Callable[[Any], Specs]) -> Callable[[Any], Specs]:
    """`userstate.get_dofn_specs`, asked once a class.

    A DoFn made of a function (`beam.Map` and the like) has the parameters of
    that function; only one with parameters of Beam's is looked at every time.
    """
    known: dict[type, Specs] = {}

    def get_dofn_specs(dofn: Any) -> Specs:
        if hasattr(dofn, "_inspect_process"):
            _, defaults = dofn._inspect_process()
            if any(isinstance(default, core._DoFnParam) for default in defaults):
                return original(dofn)
        kind = type(dofn)
        if kind not in known:
            known[kind] = original(dofn)
        states, timers = known[kind]
        return set(states), set(timers)

    return get_dofn_specs


def remembered_options(original: Callable[..., None]) -> Callable[..., None]:
    """`PipelineOptions.__init__`, parsing the same flags once for each class of options."""
    known: dict[tuple[type, tuple[str, ...]], tuple[Any, Mapping[str, Any]]] = {}

    def init(self: Any, flags: Any = None, **values: Any) -> None:
        if flags is None or isinstance(flags, str):  # the command line's own, or an error
            original(self, flags, **values)
            return
        key = (type(self), tuple(flags))
        if key not in known:
            plain = self.__class__.__new__(self.__class__)
            original(plain, list(flags))
            known[key] = (plain._visible_options, plain._all_options)
        visible, parsed = known[key]
        self._flags = flags
        self._visible_options = copy.deepcopy(visible)
        self._all_options = values
        for name, value in parsed.items():
            values.setdefault(name, copy.deepcopy(value))

    return init


class ModuleIndex:
    """Which modules lie below which package, counted anew when modules were loaded."""

    def __init__(self) -> None:
        self._size = -1
        self._below: dict[str, list[tuple[str, frozenset[str]]]] = {}

    def submodules(self, code: Any, dependencies: Any) -> list[Any]:
        """The loaded submodules of packages among `dependencies` that `code` can name."""
        self._refresh()
        names = frozenset(code.co_names)
        found = []
        for item in dependencies:
            if not isinstance(item, types.ModuleType) or not getattr(item, "__package__", None):
                continue
            for name, tokens in self._below.get(item.__name__, ()):
                if tokens <= names and name in sys.modules:
                    found.append(sys.modules[name])
        return found

    def _refresh(self) -> None:
        if len(sys.modules) == self._size:
            return
        below: dict[str, list[tuple[str, frozenset[str]]]] = {}
        modules = [name for name in list(sys.modules) if name]
        for name in modules:
            parts = name.split(".")
            for cut in range(1, len(parts)):
                below.setdefault(".".join(parts[:cut]), []).append((name, frozenset(parts[cut:])))
        self._size, self._below = len(sys.modules), below


class GlobalsIndex:
    """The globals of all loaded modules, listed anew when modules were loaded.

    Beam sizes each value that it caches, such as a side input, and the size
    leaves out what modules share; listing their globals takes far longer than
    sizing what is small.
    """

    def __init__(self) -> None:
        self._size = -1
        self._globals: frozenset[int] = frozenset()

    def deep_size(self, *values: Any) -> int:
        """`statecache.get_deep_size`: bytes of values and what only they refer to."""
        if len(sys.modules) != self._size:
            modules = list(sys.modules.values())
            self._globals = frozenset(id(vars(module)) for module in modules if hasattr(module, "__dict__"))
            self._size = len(sys.modules)
        return int(
            statecache.objsize.get_deep_size(
                *values,
                get_size_func=statecache._size_func,
                get_referents_func=statecache._get_referents_func,
                filter_func=self._counts,
                exclude_modules_globals=False,
            )
        )

    def _counts(self, value: Any) -> bool:
        return id(value) not in self._globals and statecache._filter_func(value)
