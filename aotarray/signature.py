"""Functions' parameters: binding calls and specs to flat lists of named leaves."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import sizes, spec
from .errors import SpecError
from .ops.names import RESERVED
from .sizes import Dim
from .trace.trees import Structure, flatten, form, leaf_names
from .types import ArrayType


@dataclass(frozen=True)
class Bound:
    """One call's arguments: `leaves` with their `names`, and how they nest."""

    function_name: str
    leaves: list[Any]
    names: list[str]
    key: Hashable
    is_plain: bool
    #: each parameter that holds leaves, with how it nests
    parameters: list[tuple[str, Structure]]
    statics: list[tuple[str, Any]]
    #: the leaves that the function may write into
    inout: frozenset[int]
    rebuild: Callable[[Sequence[Any]], tuple[tuple[Any, ...], dict[str, Any]]]


class Signature:
    """The parameters of a function, which of them are static, and which are written into."""

    def __init__(
        self,
        name: str,
        parameters: inspect.Signature | None,
        static: tuple[str, ...],
        inout: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.parameters = parameters
        self.static = static
        self.inout = inout
        self.names = tuple(parameters.parameters) if parameters else ()
        listed = list(parameters.parameters.values()) if parameters else []
        plain, keyword_only = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        kinds = {p.kind for p in listed}
        #: whether every parameter may be given by position and by name, so that names alone sort a call
        self.is_simple = not static and parameters is not None and kinds <= {plain}
        self._place = {p.name: k for k, p in enumerate(listed) if p.kind in (plain, keyword_only)}
        self._static_places = frozenset(k for k, p in enumerate(listed) if p.name in static)
        self._has_form = not static or inspect.Parameter.VAR_POSITIONAL not in kinds

    @classmethod
    def of(
        cls, function: Callable[..., Any], static: Sequence[str] = (), inout: Sequence[str] = ()
    ) -> Signature:
        """Read off a function, method, partial, lambda or callable object."""
        try:
            parameters: inspect.Signature | None = inspect.signature(function)
        except (TypeError, ValueError):
            parameters = None
        if parameters is not None:
            accepts_any = any(p.kind is p.VAR_KEYWORD for p in parameters.parameters.values())
            for option, names in (("static_argnames", static), ("inout", inout)):
                unknown = [s for s in names if s not in parameters.parameters]
                if unknown and not accepts_any:
                    raise ValueError(f"{option}: {function_name(function)} has no parameter {unknown[0]!r}")
        both = [s for s in static if s in inout]
        if both:
            raise ValueError(f"{function_name(function)}: parameter {both[0]!r} cannot be static and inout")
        return cls(function_name(function), parameters, tuple(static), tuple(inout))

    def form(self, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[Any]) -> Hashable | None:
        """Append the leaves of a call in the order of `bind`; return a key: equal ones have equal `bind` keys.

        None where only `bind` can tell. A key may turn out to have no hash.
        """
        if not self._has_form:
            return None
        if self._static_places:
            key = [static_key(v) if k in self._static_places else form(v, leaves) for k, v in enumerate(args)]
        else:
            key = [form(v, leaves) for v in args]
        if not kwargs:
            return tuple(key)
        for name in sorted(kwargs, key=lambda n: self._place.get(n, len(self._place))):
            key += (name, static_key(kwargs[name]) if name in self.static else form(kwargs[name], leaves))
        return len(args), *key

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any], inout: Sequence[str | int] = ()) -> Bound:
        """Name and flatten the arguments of a call; TypeError as Python gives it for a wrong call.

        Parameters that are not given keep their defaults, which become part of the program. `inout` adds names
        and places of parameters that are written into.
        """
        declared = {*self.inout, *inout}
        if self.parameters is None:
            named = [(f"arg{k}", v) for k, v in enumerate(args)] + list(kwargs.items())
        else:
            try:
                bound = self.parameters.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{self.name}() {error}") from None
            args, kwargs = bound.args, bound.kwargs
            named = self._named(args, kwargs)
        leaves: list[Any] = []
        names: list[str] = []
        structures: list[Structure | None] = []
        statics: list[tuple[str, Any]] = []
        written: list[int] = []
        for place, (name, value) in enumerate(named):
            if name in self.static:
                try:
                    hash(value)
                except TypeError:
                    raise TypeError(
                        f"{self.name}(): static argument {name!r} must be hashable, not a {type(value).__name__}"
                    ) from None
                statics.append((name, value))
                structures.append(None)
                continue
            before = len(leaves)
            structure = flatten(value, leaves)
            structures.append(structure)
            names += leaf_names(structure, name)
            if not declared.isdisjoint((place, name, self._collects(name))):
                written += range(before, len(leaves))
        positional = len(args)
        keywords = tuple(kwargs)
        static_values = dict(statics)

        def rebuild(values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            rest = iter(values)
            made = [
                static_values[name] if structure is None else structure.rebuild(rest)
                for (name, _), structure in zip(named, structures, strict=True)
            ]
            return tuple(made[:positional]), dict(zip(keywords, made[positional:], strict=True))

        plain = not statics and not keywords and all(s is not None and s.kind == "leaf" for s in structures)
        kinds = tuple((n, static_key(v)) for n, v in statics)
        nested = [(n, s) for (n, _), s in zip(named, structures, strict=True) if s is not None]
        key = (tuple(structures), kinds, positional, keywords)
        return Bound(self.name, leaves, names, key, plain, nested, statics, frozenset(written), rebuild)

    def _collects(self, name: str) -> str | None:
        """The parameter `*args` that one of the names `args_0`, `args_1`, ... stands for a part of."""
        stem, _, number = name.rpartition("_")
        parameter = self.parameters.parameters.get(stem) if self.parameters and number.isdigit() else None
        return stem if parameter is not None and parameter.kind is parameter.VAR_POSITIONAL else None

    def _named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
        assert self.parameters is not None
        names: list[str] = []
        for parameter in self.parameters.parameters.values():
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                names.append(parameter.name)
            elif parameter.kind is parameter.VAR_POSITIONAL:
                names += [f"{parameter.name}_{k}" for k in range(len(args) - len(names))]
        return [*zip(names, args, strict=False), *kwargs.items()]

    def bind_spec(self, text: str) -> tuple[Bound, list[ArrayType]]:
        """The leaves and types that a spec gives the parameters; parameters with defaults may be left out."""
        given = spec.parse(text)
        positional: list[Any] = []
        named: dict[str, Any] = {}
        inout = [k if p.name is None else p.name for k, p in enumerate(given) if p.inout]
        for parameter in given:
            if parameter.name is None:
                if named:
                    raise SpecError(f"spec {text!r}: a parameter without a name follows one with a name")
                positional.append(parameter.spec)
            else:
                named[parameter.name] = parameter.spec
        parameters = self.parameters.parameters if self.parameters else {}
        open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values()) or not self.parameters
        for name in named:
            if name not in parameters and not open_ended:
                raise SpecError(
                    f"spec {text!r}: {self.name}() has no parameter {name!r}; it has {', '.join(parameters)}"
                )
        try:
            bound = self.bind(*self._templates(positional, named), inout)
        except TypeError as error:
            raise SpecError(f"spec {text!r} does not fit: {error}") from None
        leaves = [v if isinstance(v, ArrayType) else _default_type(v) for v in bound.leaves]
        return bound, leaves

    def _templates(
        self, positional: list[Any], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return tuple(_template(s) for s in positional), {n: _template(s) for n, s in named.items()}


def refuse_unwritable(bound: Bound) -> None:
    """Raise for an argument of a call that is to be written into and cannot be.

    Which arrays share memory is seen when the program runs.
    """
    for k in sorted(bound.inout):
        value, name = bound.leaves[k], bound.names[k]
        if not isinstance(value, np.ndarray):
            raise TypeError(
                f"argument {name!r} is inout: it must be a numpy.ndarray, not {type(value).__name__}"
            )
        if not value.flags.writeable:
            raise ValueError(f"argument {name!r} is inout, but the array is read-only")


def static_key(value: Any) -> Hashable:
    """What a static argument adds to the key, where 1 and True, or 0.0 and -0.0, are not the same."""
    if type(value) in (tuple, frozenset):
        return type(value), type(value)(static_key(v) for v in value)
    return type(value), repr(value) if type(value) in (float, complex) else value


def _default_type(value: Any) -> ArrayType:
    array = np.asarray(value)
    return ArrayType(array.dtype, array.shape, type(value) in (int, float, complex, bool))


def _template(item: spec.Spec) -> Any:
    """A nested value whose leaves are types."""
    if isinstance(item, spec.ArraySpec):
        return ArrayType(item.dtype, tuple(dim_of(d) for d in item.dims))
    if isinstance(item, spec.ScalarSpec):
        dtype = {"bool": np.bool_, "int": np.int64, "float": np.float64, "complex": np.complex128}[item.kind]
        return ArrayType(np.dtype(dtype), (), True)
    if isinstance(item, spec.TupleSpec):
        return tuple(_template(i) for i in item.items)
    if isinstance(item, spec.ListSpec):
        return [_template(i) for i in item.items]
    return {k: _template(v) for k, v in item.items}


def dim_of(dim: spec.DimExpr) -> Dim:
    """A parsed size as a `Dim`."""
    if isinstance(dim, int):
        return dim
    if isinstance(dim, str):
        if dim in RESERVED:
            raise SpecError(
                f"a size cannot be called {dim!r}: the generated source has a function of this name"
            )
        return sizes.name(dim)
    left, right = dim_of(dim.left), dim_of(dim.right)
    if dim.op == "+":
        return left + right
    if dim.op == "-":
        return left - right
    if dim.op == "*":
        return left * right
    return sizes.floordiv(left, right) if dim.op == "//" else sizes.mod(left, right)


def function_name(function: Callable[..., Any]) -> str:
    """A name for messages and kernels that is a Python identifier."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", type(function).__name__)
    return name if name.isidentifier() else "function"
