"""Users can check their code with the types of the package."""

import os
import subprocess
import sys
from pathlib import Path

import dgmm
import pytest
import typed_example

EXAMPLE = Path(typed_example.__file__)


def mypy(path, folder):
    """Check a file as a user would who has the package installed and no settings."""
    environment = dict(os.environ)
    package = Path(dgmm.__file__).parents[1]
    if "site-packages" not in package.parts:
        environment["MYPYPATH"] = str(package)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file="]
    command += [f"--cache-dir={folder / 'cache'}", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=folder)


def test_an_example_is_right_in_the_eyes_of_mypy_and_runs(tmp_path, capsys):
    done = mypy(EXAMPLE, tmp_path)
    assert done.returncode == 0, done.stdout
    typed_example.main()
    assert "(20, 16)" in capsys.readouterr().out
    wrong = EXAMPLE.read_text().replace("near.distances", "near.lengths").replace("model.bic(X), ", "'none', ")
    (tmp_path / "wrong.py").write_text(wrong)
    done = mypy(tmp_path / "wrong.py", tmp_path)
    assert done.stdout.count("error:") == 2, done.stdout


@pytest.mark.parametrize("name", dgmm.__all__)
def test_every_name_is_there(name):
    assert hasattr(dgmm, name)
