"""Imports point downwards, light things stay light, and nothing unpickles."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import privaudit

PACKAGE = Path(privaudit.__file__).resolve().parent
LONGEST = 450

#: The layers from the ground up. A part may import from lower layers and from itself, and from
#: another part of its own layer never.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"errors", "capabilities", "docstrings"}),
    frozenset({"transcript"}),
    frozenset({"ledger", "plugins", "configuration"}),
    frozenset(
        {"datasets", "models", "similarity", "quantisation", "recording", "secure_computation"}
    ),
    frozenset({"protocols", "accounting", "leakage"}),
    frozenset({"attacks"}),
    frozenset({"scoring", "reports"}),
    frozenset({"campaigns"}),
    frozenset({"_conformance"}),
    frozenset({"testing", "api"}),
    frozenset({"cli"}),
    frozenset({"__main__"}),
)
HEAVY = (
    "torch",
    "torchvision",
    "scipy",
    "sklearn",
    "skimage",
    "numba",
    "opacus",
    "dp_accounting",
    "matplotlib",
    "pandas",
)


@cache
def sources() -> tuple[Path, ...]:
    return tuple(sorted(p for p in PACKAGE.rglob("*.py") if "__pycache__" not in p.parts))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path) -> Iterator[tuple[str, int]]:
    """Every module that a file imports anywhere, also inside functions, with the line.

    ``from a import b`` counts as ``a.b`` where that is a module of the package.
    """
    modules = {name_of(p) for p in sources()}
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute in this package"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in modules else str(node.module), node.lineno


def of_every_file(check: Callable[[Path], None]) -> Callable[[], None]:
    """Make one test of a check of one file; assertions name the file."""

    def test() -> None:
        for path in sources():
            check(path)

    test.__doc__ = check.__doc__
    return test


def part_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def layer_of(part: str) -> int:
    (layer,) = [i for i, parts in enumerate(LAYERS) if part in parts]
    return layer


def test_every_part_of_the_package_has_a_layer() -> None:
    parts = {part_of(name_of(path)) for path in sources()} - {""}
    assert parts == set().union(*LAYERS)


@of_every_file
def test_imports_point_downwards(path: Path) -> None:
    own = part_of(name_of(path))
    for module, line in imported(path):
        if module == "privaudit" or not module.startswith("privaudit."):
            continue
        other = part_of(module)
        if other != own and own:
            assert layer_of(other) < layer_of(own), f"{path}:{line}: {own} imports {module}"


def files_of(part: str) -> list[Path]:
    found = [p for p in sources() if part_of(name_of(p)) == part]
    assert found, part
    return found


def imports_of(part: str) -> list[tuple[str, str]]:
    return [(m, f"{p}:{line}") for p in files_of(part) for m, line in imported(p)]


def test_the_package_itself_imports_nothing_of_its_own() -> None:
    """What it hands on is loaded when it is asked for; only the type checker sees it before."""
    tree = tree_of(PACKAGE / "__init__.py")
    unconditional = [ast.unparse(node) for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert unconditional == [
        "from __future__ import annotations",
        "from importlib import import_module",
        "from typing import TYPE_CHECKING, Any",
    ]


def test_attacks_read_of_protocols_only_kinds_and_public_building_blocks() -> None:
    allowed = {
        "privaudit.protocols.base",
        "privaudit.protocols.training",
        # What a permutation sequence is: the paper's own operation, on arrays.
        "privaudit.protocols.pa_cfl.sequences",
    }
    for module, place in imports_of("attacks"):
        if module.startswith("privaudit.protocols"):
            assert module in allowed or module.endswith(".kinds"), f"{place}: {module}"


def test_attacks_cannot_name_the_truth_or_read_files() -> None:
    for path in files_of("attacks"):
        if name_of(path) == "privaudit.attacks.control":
            # Makes treated transcripts for experiments; its truth is that of the treatment.
            continue
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ImportFrom) and node.module == "privaudit.transcript":
                assert "Truth" not in {a.name for a in node.names}, f"{path}:{node.lineno}"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "open", f"{path}:{node.lineno}"
    for module, place in imports_of("attacks"):
        assert not module.startswith(("pathlib", "os", "privaudit.recording")), f"{place}: {module}"


def test_accounting_needs_neither_torch_nor_protocols() -> None:
    for module, place in imports_of("accounting"):
        top = module.split(".")[0]
        assert top not in ("torch", "torchvision", "opacus"), f"{place}: {module}"
        if top == "privaudit":
            assert part_of(module) in ("accounting", "ledger", "errors", "transcript"), place


def test_quantisation_needs_neither_torch_nor_data_nor_protocols() -> None:
    for module, place in imports_of("quantisation"):
        top = module.split(".")[0]
        assert top not in ("torch", "torchvision", "faiss", "nanopq"), f"{place}: {module}"
        if top == "privaudit":
            assert part_of(module) in ("quantisation", "errors", "transcript"), place


def test_tables_are_read_with_libraries_that_only_the_reader_of_files_imports() -> None:
    for path in sources():
        for module, line in imported(path):
            if module.split(".")[0] in ("pandas", "pyarrow") and part_of(name_of(path)) != "cli":
                assert name_of(path) == "privaudit.datasets._frames", f"{path}:{line}: {module}"


def test_recording_needs_numpy_and_safetensors_and_nothing_else() -> None:
    allowed = sys.stdlib_module_names | {"numpy", "safetensors"}
    for module, place in imports_of("recording"):
        if module.split(".")[0] == "privaudit":
            assert module == "privaudit" or part_of(module) in (
                "recording",
                "transcript",
                "errors",
            ), f"{place}: {module}"
        else:
            assert module.split(".")[0] in allowed, f"{place}: {module}"


def test_scoring_and_reports_do_not_run_protocols() -> None:
    for part in ("scoring", "reports"):
        for module, place in imports_of(part):
            assert not module.startswith("privaudit.protocols"), f"{place}: {module}"


def loaded_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys; print(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("statement", "also"),
    [
        ("import privaudit", ("numpy", "pydantic", "typer")),
        ("import privaudit.errors", ("numpy", "pydantic", "typer")),
        ("import privaudit.plugins", ("numpy", "pydantic", "typer")),
        ("import privaudit.transcript", ("pydantic", "typer")),
        ("import privaudit.ledger", ("pydantic", "typer")),
        ("import privaudit.cli", ("numpy",)),
        ("import privaudit.recording", ("pydantic", "typer")),
        ("import privaudit.protocols.pa_cfl.kinds, privaudit.protocols.baselines.kinds", ()),
        ("import privaudit.protocols.pq_mds.kinds, privaudit.quantisation", ()),
    ],
)
def test_light_modules_load_no_heavy_library(statement: str, also: tuple[str, ...]) -> None:
    forbidden = {*HEAVY, *also}
    if "kinds" in statement:
        # The package of a protocol hands its class on, which needs numerical libraries.
        forbidden = {"torch", "torchvision", "opacus"}
    assert not loaded_after(statement) & forbidden


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["audit", "--help"]])
def test_help_answers_without_loading_a_heavy_library(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom privaudit.cli import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit as ended:\n    assert not ended.code\n"
        "print('LOADED', *sorted({m.split('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.rsplit("LOADED", 1)[1].split())
    assert not loaded & {*HEAVY, "numpy"}


@of_every_file
def test_nothing_unpickles_or_evaluates_text(path: Path) -> None:
    for module, line in imported(path):
        assert module.split(".")[0] not in ("pickle", "cPickle", "dill", "joblib", "shelve"), (
            f"{path}:{line} imports {module}"
        )
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Attribute):
            spelled = ast.unparse(node)
            assert spelled not in ("torch.load", "torch.save"), f"{path}:{node.lineno}: {spelled}"
        if isinstance(node, ast.Name):
            assert node.id not in ("eval", "exec"), f"{path}:{node.lineno}: {node.id}"
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            value = node.value
            assert isinstance(value, ast.Constant), f"{path}:{node.value.lineno}"
            assert value.value is False, f"{path}:{value.lineno}: allow_pickle={value.value}"
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("np.load", "numpy.load"):
            given = {k.arg for k in node.keywords}
            assert "allow_pickle" in given, f"{path}:{node.lineno}: np.load says allow_pickle=False"


@of_every_file
def test_every_file_can_be_read_in_one_sitting(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST, path


@of_every_file
def test_randomness_never_comes_from_a_global_source(path: Path) -> None:
    """A seed or generator is always passed; the old global state of numpy is not used."""
    allowed = {"default_rng", "Generator", "SeedSequence", "PCG64", "Philox", "BitGenerator"}
    for module, line in imported(path):
        assert module != "random", f"{path}:{line}"
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in (
            "np.random",
            "numpy.random",
        ):
            assert node.attr in allowed, f"{path}:{node.lineno}: np.random.{node.attr}"
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "np.random.default_rng":
            assert node.args, f"{path}:{node.lineno}: default_rng() without a seed"


@of_every_file
def test_public_modules_say_what_they_hand_on(path: Path) -> None:
    tree = tree_of(path)
    assert ast.get_docstring(tree), f"{path} has no docstring"
    private = any(part.startswith("_") for part in name_of(path).split("."))
    names = [
        node
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    public = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    ]
    if public and not private:
        assert names, f"{path} has no __all__"
