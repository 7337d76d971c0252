"""The product keeps every rule, each exception is still needed, and each rule catches what it is for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache

import pytest

from tests.tidy.allowed import FILES, is_allowed
from tests.tidy.rules import ambient, order, prose, state
from tests.tidy.source import Module, Violation, product_modules

Rule = Callable[[Module], Iterator[Violation]]


@cache
def project_attributes() -> Mapping[str, str]:
    return order.attribute_kinds(product_modules())


def unordered_iteration(module: Module) -> Iterator[Violation]:
    return order.unordered_iteration(module, project_attributes())


RULES: dict[str, Rule] = {
    "ambient modules": ambient.ambient_modules,
    "ambient names": ambient.ambient_names,
    "chance": ambient.chance,
    "trio deadlines": ambient.trio_deadlines,
    "hidden clocks": ambient.hidden_clocks,
    "unordered iteration": unordered_iteration,
    "identity order": order.identity_order,
    "module state": state.module_state,
    "kept nurseries": state.kept_nurseries,
    "async generators": state.async_generators,
    "finalizers": state.finalizers,
    "real world": state.real_world,
    "docstring fragments": prose.docstring_fragments,
}


@cache
def violations(rule: str) -> tuple[Violation, ...]:
    return tuple(sorted(found for module in product_modules() for found in RULES[rule](module)))


@pytest.mark.parametrize("rule", RULES)
def test_the_product_obeys_each_rule(rule: str) -> None:
    broken = [found for found in violations(rule) if not is_allowed(found)]
    assert not broken, "\n" + "\n".join(map(str, broken))


@pytest.mark.parametrize("entry", FILES, ids=lambda entry: f"{entry.where}-{entry.rule}")
def test_each_exception_is_still_needed(entry: object) -> None:
    assert any(entry.covers(found) for rule in RULES for found in violations(rule))  # type: ignore[attr-defined]  # pytest types parameters as objects.


PLANTED: dict[str, list[str]] = {
    "ambient modules": [
        "import time",
        "from uuid import uuid4",
        "import os.path",
        "from os import path",
        "from concurrent.futures import ThreadPoolExecutor",
        "def f():\n    import socket",
        "import http.client",
        "from urllib.request import urlopen",
        "import secrets as s",
        "try:\n    import threading\nexcept ImportError:\n    pass",
    ],
    "ambient names": [
        "def f(p):\n    return open(p)",
        "print('x')",
        "from pathlib import Path",
        "import pathlib\npathlib.Path('a').read_text()",
        "import trio\nasync def f():\n    await trio.sleep(1)",
        "import trio as t\nasync def f():\n    return t.current_time()",
        "from trio import move_on_after",
        "from trio import fail_after as limit",
        "import trio\nasync def f():\n    await trio.to_thread.run_sync(len, [])",
        "from trio import lowlevel\nasync def f(s):\n    await lowlevel.wait_readable(s)",
        "import trio\nwith trio.open_signal_receiver(2): pass",
        "import trio.testing",
        "import sys\nsys.stdout.write('x')",
        "import datetime\ndatetime.datetime.now()",
        "from datetime import datetime\ndatetime.utcnow()",
        "import io\nio.open('x')",
        "import posixpath\nposixpath.exists('x')",
    ],
    "chance": [
        "import random\nrandom.random()",
        "import random\ndef f():\n    return random.Random()",
        "import random as r\nchance = r.Random(3)",
        "from random import Random\nRandom(3)",
        "from random import shuffle\nshuffle([])",
        "import random\ndef f(items, key=random.choice): pass",
    ],
    "trio deadlines": [
        "import trio\nscope = trio.CancelScope(deadline=5)",
        "from trio import CancelScope\nscope = CancelScope(relative_deadline=5)",
        "def f(scope):\n    scope.deadline = 3",
        "def f(self):\n    self.cancel_scope.deadline += 3",
    ],
    "hidden clocks": [
        "import gzip\ngzip.compress(b'')",
        "from gzip import GzipFile\nGzipFile(fileobj=None)",
        "from datetime import datetime\ndatetime.fromtimestamp(3)",
    ],
    "unordered iteration": [
        "for x in {1, 2}: pass",
        "for x in set(y): pass",
        "a = frozenset(y)\nb = list(a)",
        "def f(names: set[str]):\n    return [n for n in names]",
        "def f(names: 'frozenset[str] | None'):\n    return tuple(names)",
        "def f():\n    left = {1} | {2}\n    return ','.join(left)",
        "def f(a: dict, b: dict):\n    for key in a.keys() - b.keys(): pass",
        "class A:\n    members: set[int]\n    def f(self):\n        for m in self.members: pass",
        (
            "class A:\n    def __init__(self):\n        self.members: set[int] = set()\n    def f(self):\n        "
            "return {m: 1 for m in self.members}"
        ),
        "class A:\n    by_id: Map[int, str]\ndef f(a):\n    for k, v in a.by_id.items(): pass",
        "class A:\n    by_id: immutables.Map[int, str]\ndef f(a):\n    return list(a.by_id.values())",
        "def f(m: Map):\n    return [*m]",
        "def f(s: set[int]):\n    return next(iter(s))",
        "def f(s: set[int]):\n    return s.pop()",
        "def f(s: set[int]):\n    def g():\n        for x in s: pass\n    return g",
        "def f(s: set[int]):\n    (only,) = s\n    return only",
        "def f(s: set[int]):\n    yield from s",
        "def f(s: set[int], out):\n    out.extend(s)",
        "def f(s: set[int]):\n    for n, x in enumerate(s.union([1])): pass",
        "def f(s: set[int]):\n    return dict.fromkeys(s)",
        "def f(s: set[int]):\n    for x in s:  # unordered:\n        pass",
    ],
    "identity order": ["sorted(x, key=id)\nid(x)", "def f(x):\n    return hash(x) % 3"],
    "kept nurseries": [
        "async def f(self):\n    async with trio.open_nursery() as n:\n        self._nursery = n\n        await wait()",
        "async def f(self):\n    try:\n        async with trio.open_nursery() as n:\n            self._n = n\n"
        "            await wait()\n    finally:\n        self._n = None",
    ],
    "module state": [
        "cache = {}",
        "CACHE = {}\ndef f():\n    CACHE[1] = 2",
        "ITEMS: list[int] = []\ndef f():\n    ITEMS.append(1)",
        "NAMES = set()\nNAMES |= {1}",
        "TABLE = dict()\ndef f():\n    del TABLE[1]",
        "n = 0\ndef f():\n    global n\n    n += 1",
        "IDS = itertools.count()\nids = itertools.count()",
        "queue = collections.deque()",
    ],
    "async generators": [
        "async def f():\n    yield 1",
        "async def f(s):\n    async for x in s:\n        yield x",
        "async def f(s):\n    return use(x async for x in s)",
    ],
    "finalizers": ["class A:\n    def __del__(self): pass"],
    "real world": [
        "from kraft.world.real import RealWorld\nw = RealWorld()",
        "import kraft.world.real\nw = kraft.world.real.RealWorld()",
    ],
    "docstring fragments": [
        '"""Which segments may go."""',
        'def size(self):\n    """Of all replicas."""',
        'async def encode():\n    """As `encode`; pauses."""',
        'class A:\n    """Likewise."""',
        'class A:\n    def f(self):\n        """\n        To stdout.\n        """',
        'def f():\n    def g():\n        """who leads."""',
    ],
}

HARMLESS: dict[str, list[str]] = {
    "ambient modules": [
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import socket",
        "import posixpath, struct, zlib, io",
        "from kraft.common import time_units",
        "from . import random",
        "from urllib.parse import urlsplit",
    ],
    "ambient names": [
        "import trio\nasync def f():\n    await trio.lowlevel.checkpoint()\n    await trio.sleep_forever()",
        "import trio\nwith trio.CancelScope() as s: s.cancel()",
        "def f(files):\n    return files.open('x')",
        "class A:\n    def open(self): pass",
        "from datetime import datetime, timezone\ndatetime.fromtimestamp(1, timezone.utc)",
        "from pathlib import PurePosixPath",
    ],
    "chance": [
        "import random\ndef f(chance: random.Random):\n    return chance.random()",
        "from random import Random\nclass A:\n    chance: Random | None",
    ],
    "trio deadlines": [
        "import trio\nwith trio.CancelScope(shield=True): pass",
        "class A:\n    def f(self):\n        self.deadline = 1",
    ],
    "hidden clocks": [
        "import gzip\ngzip.compress(b'', mtime=0)",
        "from datetime import datetime\ndatetime.fromtimestamp(3, tz=None)",
    ],
    "unordered iteration": [
        "for x in sorted({1, 2}): pass",
        "def f(s: set[int]):\n    return any(x > 1 for x in s), sum(s), len(s), 3 in s",
        "def f(s: set[int]):\n    return {x + 1 for x in s}",
        "def f(s: set[int]):\n    s = sorted(s)\n    for x in s: pass",
        "def f(s: list[int]):\n    for x in s: pass",
        "def f(m: Map):\n    return sorted(m.items())",
        "def f(s: set[int]):\n    for x in s:  # unordered: each element is only counted\n        pass",
        "def f(d: dict[int, set[int]]):\n    for k, v in d.items(): pass",
        (
            "class A:\n    members: set[int]\nclass B:\n    members: list[int]\n    def f(self):\n        for m "
            "in self.members: pass"
        ),
        "def f(s: set[int], t: set[int]):\n    return s | t, {*s}, set(s)",
        "def f(stack: list[int]):\n    return stack.pop()",
    ],
    "identity order": [
        "class A:\n    def __hash__(self):\n        return hash(self.x)",
        "def f(id):\n    return id",
        "x = {id(y): y for y in z}  # unordered: told apart only",
    ],
    "kept nurseries": [
        "async def f(self):\n    async with trio.open_nursery() as n:\n        self._n = n\n        try:\n"
        "            await wait()\n        finally:\n            self._n = None",
        "async def f(self):\n    async with trio.open_nursery() as n:\n        n.start_soon(g)",
    ],
    "module state": [
        "TABLE = {1: 2}\ndef f():\n    return TABLE[1]",
        "__all__ = ['a']",
        "NAMES = frozenset()",
        "def f():\n    items = []\n    items.append(1)",
        "class A:\n    pass\nVALUE = A()",
    ],
    "async generators": [
        "@asynccontextmanager\nasync def f():\n    yield 1",
        "@contextlib.asynccontextmanager\nasync def f():\n    yield 1",
        "@trio.as_safe_channel\nasync def f():\n    yield 1",
        "async def f():\n    def g():\n        yield 1\n    return g",
        "async def f(s):\n    return [x async for x in s]",
    ],
    "finalizers": ["class A:\n    def __exit__(self, *args): pass"],
    "real world": ["from kraft.world.ports import World\ndef f(w: World): pass"],
    "docstring fragments": [
        '"""The segments that may go."""',
        'def size(self):\n    """Add the sizes of all replicas."""',
        'def f():\n    pass\n"""Of no definition."""',
        'def f():\n    """"""',
        'class A:\n    """Offsets, as the log has them."""',
    ],
}


@pytest.mark.parametrize(("rule", "text"), [(rule, text) for rule, texts in PLANTED.items() for text in texts])
def test_a_planted_violation_is_caught(rule: str, text: str) -> None:
    found = [each for each in RULES[rule](Module.of(text)) if not is_allowed(each)]
    assert found
    assert str(found[0]).startswith("kraft/storage/planted.py:")


@pytest.mark.parametrize(("rule", "text"), [(rule, text) for rule, texts in HARMLESS.items() for text in texts])
def test_harmless_code_passes(rule: str, text: str) -> None:
    assert [str(each) for each in RULES[rule](Module.of(text))] == []


def test_every_rule_has_planted_and_harmless_examples() -> None:
    assert PLANTED.keys() == HARMLESS.keys() == RULES.keys()
