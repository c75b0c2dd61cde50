"""What is built, shipped and checked: one version, a complete stub, no dangling promise."""

from __future__ import annotations

import ast
import inspect
import json
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import pytest

from flashbulb import _core

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
VERSION_HEADER = "cpp/include/flashbulb/version.hpp"


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


# -- One version ---------------------------------------------------------------------------------


def test_every_place_names_the_same_version(project: dict[str, Any]) -> None:
    version = project["project"]["version"]
    assert f"project(flashbulb VERSION {version} " in read("CMakeLists.txt")
    newest = re.search(r"^## (\S+)", read("CHANGELOG.md"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == version
    assert metadata.version("flashbulb") == version
    header = dict(re.findall(r"#define FLASHBULB_(\w+) +(\S+)", read(VERSION_HEADER)))
    assert header.pop("VERSION") == f'"{version}"'
    assert [header[f"VERSION_{part}"] for part in ("MAJOR", "MINOR", "PATCH")] == version.split(".")


def test_pre_commit_runs_the_versions_of_the_lint_group(project: dict[str, Any]) -> None:
    pinned = {line for line in project["dependency-groups"]["lint"] if "==" in line}
    hooks = set(re.findall(r'"([\w\[\]-]+==[\d.]+)"', read(".pre-commit-config.yaml")))
    assert hooks
    assert hooks <= pinned
    # mypy runs in the project's own environment, where the group installed it.
    assert {line.split("==")[0] for line in pinned - hooks} == {"mypy"}


# -- What is shipped -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["py.typed", "_core.pyi", "demo/stream.csv", "arousal/data/model.npz"]
)
def test_the_package_holds(name: str) -> None:
    assert resources.files("flashbulb").joinpath(name).is_file()


def test_the_wheel_holds_the_extension_and_not_the_cpp_library() -> None:
    files = metadata.files("flashbulb")
    assert files
    assert [f for f in files if f.suffix in (".a", ".hpp", ".cmake", ".pc")] == []


def test_the_wheel_holds_the_package_and_not_the_tools(project: dict[str, Any]) -> None:
    assert project["tool"]["scikit-build"]["wheel"]["packages"] == ["python/flashbulb"]
    files = metadata.files("flashbulb")
    assert files
    assert [f for f in files if "tools" in f.parts or "corpus" in f.parts] == []


def test_no_data_of_the_package_is_kept_out_of_wheel_and_sdist(project: dict[str, Any]) -> None:
    build = project["tool"]["scikit-build"]
    patterns = [*build["wheel"]["exclude"], *build["sdist"]["exclude"]]
    patterns += read(".gitignore").split()  # the sdist leaves out what it names
    data = [path for path in (ROOT / "python" / "flashbulb").glob("**/data/*") if path.is_file()]
    assert "model.npz" in [path.name for path in data]
    for path in data:
        parts = path.relative_to(ROOT).parts
        for pattern in patterns:
            name = pattern.removeprefix("**/").strip("/")
            assert not any(fnmatch(part, name) for part in parts), (path, pattern)


def test_the_licence_is_apache_2(project: dict[str, Any]) -> None:
    assert project["project"]["license"] == "Apache-2.0"
    assert "Apache License" in read("LICENSE")
    for name in project["project"]["license-files"]:
        assert (ROOT / name).is_file()


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, flashbulb; "
        "print([m for m in ('numpy', 'faiss', 'flashbulb._core', 'rich') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def simd_level_with(**environment: str) -> subprocess.CompletedProcess[str]:
    """A process that prints its SIMD level."""
    return subprocess.run(
        [sys.executable, "-c", "from flashbulb import _core; print(_core.simd_level())"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("FLASHBULB_SIMD_LEVEL", "v5", "unknown SIMD level 'v5'"),
        ("FLASHBULB_SIMD_LEVEL", "avx2", "supported here: base"),
        ("FLASHBULB_AMX", "2", "FLASHBULB_AMX must be 0 (no matrix tiles) or 1"),
        ("FLASHBULB_AMX", "off", "got 'off'"),
        ("FLASHBULB_AMX", " 0", "got ' 0'"),
    ],
)
def test_a_bad_environment_is_an_error_that_says_so(name: str, value: str, message: str) -> None:
    done = simd_level_with(**{name: value})
    assert done.returncode == 1
    assert message in done.stderr


def test_the_level_says_whether_matrix_tiles_are_used() -> None:
    with_tiles = simd_level_with(FLASHBULB_AMX="1").stdout
    assert simd_level_with().stdout == simd_level_with(FLASHBULB_AMX="").stdout == with_tiles
    without = simd_level_with(FLASHBULB_AMX="0").stdout
    assert without == ("v4_vnni\n" if with_tiles == "v4_amx\n" else with_tiles)


@pytest.mark.skipif(shutil.which("nm") is None, reason="nm (binutils) is not installed")
def test_the_extension_hides_the_core() -> None:
    assert _core.__file__ is not None
    done = subprocess.run(
        ["nm", "-D", "--defined-only", _core.__file__],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    names = [line.split()[-1] for line in done.stdout.splitlines()]
    # Lambdas of pybind11 and the standard library may show; the core must not.
    assert "PyInit__core" in names
    assert [name for name in names if name.startswith(("_ZN9flashbulb", "_ZNK9flashbulb"))] == []


# -- The stub ------------------------------------------------------------------------------------


def stub_functions() -> dict[str, list[str]]:
    """Parameter names by qualified name, as _core.pyi has them."""
    found: dict[str, list[str]] = {}

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{node.name}.")
            elif isinstance(node, ast.FunctionDef) and not node.decorator_list:
                arguments = node.args
                found[prefix + node.name] = [
                    each.arg for each in (*arguments.args, *arguments.kwonlyargs)
                ]

    visit(ast.parse(read("python/flashbulb/_core.pyi")).body, "")
    return found


def native_functions() -> dict[str, list[str]]:
    """The same from the signatures that the bindings write into the docstrings."""
    found: dict[str, list[str]] = {}

    def visit(owner: object, prefix: str) -> None:
        for name, value in vars(owner).items():
            if inspect.isclass(value):
                visit(value, f"{name}.")
                continue
            signature = re.match(rf"{name}\((.*)\) -> ", getattr(value, "__doc__", None) or "")
            if signature is None or "*args" in signature[1] or "**kwargs" in signature[1]:
                continue
            # A parameter name follows the opening bracket or a comma outside of any type.
            outside = re.sub(r"\[[^\[\]]*\]", "", signature[1])
            while "[" in outside:
                outside = re.sub(r"\[[^\[\]]*\]", "", outside)
            names = [each.split(":")[0].split("=")[0].strip() for each in outside.split(",")]
            found[prefix + name] = [each for each in names if each not in ("", "*", "/")]

    visit(_core, "")
    return found


def test_the_stub_names_every_parameter_as_the_bindings_do() -> None:
    # stubtest (in `.ci/run lint`) compares what exists; it cannot see parameters of native code.
    stub, native = stub_functions(), native_functions()
    assert len(native) > 40
    assert {name: stub.get(name) for name in native} == native


# -- Recipes and presets -------------------------------------------------------------------------


def test_recipes_and_continuous_integration_name_steps_and_presets_that_exist() -> None:
    script = read(".ci/run")
    presets = json.loads(read("CMakePresets.json"))
    configure = {p["name"] for p in presets["configurePresets"] if not p.get("hidden")}
    assert {"dev", "asan", "tsan", "bench", "tidy"} <= configure
    assert {p["name"] for p in presets["buildPresets"]} == configure

    recipes = set(re.findall(r"^(\w+):", read("justfile"), re.MULTILINE))
    assert {"setup", "test", "bench", "lint", "asan", "tsan"} <= recipes
    steps = set(re.findall(r"\.ci/run ([\w:]+)$", read("justfile"), re.MULTILINE))
    default = re.search(r"^all=\((.*?)\)$", script, re.MULTILINE | re.DOTALL)
    assert default is not None
    steps |= set(default[1].split())
    functions = set(re.findall(r"^(\w+)\(\) {$", script, re.MULTILINE))
    for step in steps:
        name, _, preset = step.partition(":")
        if step.replace(":", "_") not in functions:
            assert name in functions, step
            assert not preset or preset in configure


def test_an_unknown_step_is_refused() -> None:
    done = subprocess.run(
        [ROOT / ".ci" / "run", "tset"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert "unknown step 'tset'" in done.stderr


@pytest.mark.skipif(shutil.which("g++") is None, reason="no compiler")
def test_the_symbol_check_finds_what_it_is_for(tmp_path: Path) -> None:
    check = ROOT / "tools" / "check_kernel_symbols.sh"
    table = "namespace flashbulb::kernels { int table_v3() { return %s; } }\n"
    sources = {
        "good": "static int helper() { return 1; }\n" + table % "helper()",
        "weak": "inline int helper() { return 1; }\n" + table % "helper()",
        "other": "int helper() { return 1; }\n" + table % "helper()",
        "none": "int unused;\n",
    }
    verdicts = {}
    for name, text in sources.items():
        source, built = tmp_path / f"{name}.cpp", tmp_path / f"{name}.o"
        source.write_text(text, "utf-8")
        subprocess.run(["g++", "-std=c++20", "-O0", "-c", source, "-o", built], check=True)
        done = subprocess.run([check, "v3", built], capture_output=True, check=False)
        verdicts[name] = done.returncode
    assert verdicts == {"good": 0, "weak": 1, "other": 1, "none": 1}
