"""Which files a command line would run."""

from __future__ import annotations

from tests.tables import each_row

from dragoman.policy.shell import scripts

FOUND = {
    "./x.sh a": ("./x.sh",),
    "/opt/x": ("/opt/x",),
    "bash x.sh": ("x.sh",),
    "bash -e -x x.sh a": ("x.sh",),
    "sh -c './x.sh; python y.py'": ("./x.sh", "y.py"),
    "bash -lc 'bash x.sh'": ("x.sh",),
    "source x": ("x",),
    ". x": ("x",),
    "python x.py a": ("x.py",),
    "python3.11 -u x.py": ("x.py",),
    "python -m a.b": ("a/b.py", "a/b/__main__.py"),
    "python -c 'print(1)'": (),
    "python -W ignore x.py": ("x.py",),
    "python -E x.py": ("x.py",),
    "node x.js": ("x.js",),
    "node -r ./a.js --unknown b x.js": ("./a.js", "b", "x.js"),
    "node -e 'x' a.js": (),
    "bash -o pipefail x.sh": ("x.sh",),
    "perl -w x.pl": ("x.pl",),
    "bash < x.sh": ("x.sh",),
    "make test": ("Makefile", "makefile", "GNUmakefile"),
    "make --version": (),
    "make --version all": ("Makefile", "makefile", "GNUmakefile"),
    "npm --version": (),
    "yarn --version": ("package.json",),
    "make -f a.mk": ("a.mk",),
    "make --file=a.mk": ("a.mk",),
    "npm run build": ("package.json",),
    "npm test && ./x.sh": ("package.json", "./x.sh"),
    "sudo ./x.sh": ("./x.sh",),
    "env A=1 bash x.sh": ("x.sh",),
    "timeout 5 python x.py": ("x.py",),
    "nohup sh -c 'bash x.sh'": ("x.sh",),
    "cd a; bash x.sh\n./y": ("x.sh", "./y"),
    "if true; then ./x.sh; fi": ("./x.sh",),
    "awk -f x.awk y": ("x.awk",),
    "sed -f x.sed y": ("x.sed",),
    "find . -name '*.txt'": (),
    "find . -exec ./x.sh {} +": ("./x.sh",),
    "git status": (),
    "ls x.sh": (),
    "": (),
}


@each_row("text", FOUND)
def test_the_files_that_a_line_runs(text: str) -> None:
    assert scripts(text) == FOUND[text]
