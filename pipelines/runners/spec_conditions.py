"""The part of CEL that compiled pipelines use in `triggerPolicy.condition`.

    holds("inputs.parameter_values['x'] == 'heads' && int(...) > 3", executor_input)

Kubeflow evaluates conditions with cel-go. KFP's and TFX's compilers write
comparisons of parameters, artifact metadata and literals, joined by `&&`,
`||` and `!`, with int(), double() and string(); anything else is refused, so
that nothing is decided in another way than on a cluster.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from pipelines.runners.spec_load import SpecRefusedError
from pipelines.runners.spec_values import ResolutionError, text_of

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>\d+\.\d+(?:[eE][+-]?\d+)?|\d+)|(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
    r"""|(?P<name>[A-Za-z_]\w*)|(?P<sign>&&|\|\||==|!=|<=|>=|[<>!()\[\].,-]))"""
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}
_COMPARE = ("==", "!=", "<=", ">=", "<", ">")


def holds(condition: str, executor_input: Mapping[str, Any]) -> bool:
    """Whether a condition is true of a task's inputs.

    Raises:
        SpecRefusedError: it is no CEL, or more of CEL than this knows.
        ResolutionError: it compares what cannot be compared, or finds a key missing.
    """
    parser = _Parser(condition, _variables(executor_input))
    value = parser.parse()
    if not isinstance(value, bool):
        raise ResolutionError(f"a condition must be true or false. Received: {value!r} from {condition!r}")
    return value


def _variables(executor_input: Mapping[str, Any]) -> dict[str, Any]:
    """ExecutorInput by the names of its proto fields."""
    inputs = executor_input.get("inputs", {})
    return {
        "inputs": {
            "parameter_values": inputs.get("parameterValues", {}),
            "artifacts": inputs.get("artifacts", {}),
        }
    }


class _Parser:
    """Evaluates while it reads; both sides of && and || are read, as they have no effects."""

    def __init__(self, condition: str, variables: Mapping[str, Any]) -> None:
        self._condition = condition
        self._variables = variables
        self._tokens = self._split(condition)
        self._at = 0

    def _split(self, condition: str) -> list[tuple[str, str]]:
        tokens, at = [], 0
        while condition[at:].strip():
            match = _TOKEN.match(condition, at)
            if match is None:
                raise self._unknown(condition[at:].strip()[:20])
            tokens.append((str(match.lastgroup), str(match[str(match.lastgroup)])))
            at = match.end()
        return tokens

    def _unknown(self, what: str) -> SpecRefusedError:
        return SpecRefusedError(
            f"This runner does not know {what!r} in a condition", place=self._condition[:200]
        )

    def parse(self) -> Any:
        value = self._or()
        if self._at != len(self._tokens):
            raise self._unknown(self._tokens[self._at][1])
        return value

    def _next(self, *wanted: str) -> str:
        """Takes the next token where it is one of these signs; else empty."""
        if self._at < len(self._tokens):
            kind, text = self._tokens[self._at]
            if kind == "sign" and text in wanted:
                self._at += 1
                return text
        return ""

    def _expect(self, sign: str) -> None:
        if not self._next(sign):
            found = self._tokens[self._at][1] if self._at < len(self._tokens) else "the end"
            raise self._unknown(f"{found} instead of {sign}")

    def _or(self) -> Any:
        value = self._and()
        while self._next("||"):
            other = self._and()
            value = self._boolean(value) or self._boolean(other)
        return value

    def _and(self) -> Any:
        value = self._comparison()
        while self._next("&&"):
            other = self._comparison()
            value = self._boolean(value) and self._boolean(other)
        return value

    def _boolean(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise ResolutionError(f"no such overload: {value!r} is no bool in {self._condition!r}")
        return value

    def _comparison(self) -> Any:
        value = self._unary()
        sign = self._next(*_COMPARE)
        return _compare(sign, value, self._unary(), self._condition) if sign else value

    def _unary(self) -> Any:
        if self._next("!"):
            return not self._boolean(self._unary())
        if self._next("-"):
            value = self._unary()
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise ResolutionError(f"no such overload: -{value!r} in {self._condition!r}")
            return -value
        return self._member()

    def _member(self) -> Any:
        value = self._primary()
        while True:
            if self._next("."):
                _, name = self._take("name")
                value = self._look_up(value, name)
            elif self._next("["):
                key = self._or()
                self._expect("]")
                value = self._look_up(value, key)
            else:
                return value

    def _take(self, kind: str) -> tuple[str, str]:
        if self._at >= len(self._tokens) or self._tokens[self._at][0] != kind:
            raise self._unknown(self._condition[-20:])
        self._at += 1
        return self._tokens[self._at - 1]

    def _look_up(self, value: Any, key: Any) -> Any:
        try:
            return value[int(key) if isinstance(value, list) else key]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ResolutionError(f"no such key: {key!r} in {self._condition!r}") from error

    def _primary(self) -> Any:
        if self._next("("):
            value = self._or()
            self._expect(")")
            return value
        if self._at >= len(self._tokens):
            raise self._unknown("the end")
        kind, text = self._tokens[self._at]
        self._at += 1
        if kind == "number":
            return float(text) if "." in text or "e" in text.lower() else int(text)
        if kind == "text":
            return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text[1:-1])
        if kind == "name":
            return self._name(text)
        raise self._unknown(text)

    def _name(self, name: str) -> Any:
        if name in ("true", "false"):
            return name == "true"
        if self._next("("):
            value = self._or()
            self._expect(")")
            return self._call(name, value)
        if name not in self._variables:
            raise self._unknown(name)
        return self._variables[name]

    def _call(self, name: str, value: Any) -> Any:
        calls: dict[str, Callable[[Any], Any]] = {"int": int, "double": float, "string": text_of}
        if name not in calls:
            raise self._unknown(f"{name}()")
        try:
            return calls[name](value)
        except (TypeError, ValueError) as error:
            raise ResolutionError(f"{name}({value!r}) fails in {self._condition!r}") from error


def _compare(sign: str, first: Any, second: Any, condition: str) -> bool:
    """CEL compares values of one type; numbers of both kinds with each other."""
    numbers = all(isinstance(item, (int, float)) and not isinstance(item, bool) for item in (first, second))
    if not numbers and type(first) is not type(second):
        if sign in ("==", "!="):
            return sign == "!="
        raise ResolutionError(f"no such overload: {first!r} {sign} {second!r} in {condition!r}")
    return bool(
        {
            "==": lambda: first == second,
            "!=": lambda: first != second,
            "<=": lambda: first <= second,
            ">=": lambda: first >= second,
            "<": lambda: first < second,
            ">": lambda: first > second,
        }[sign]()
    )
