"""Which lines a rule that forbids or asks is about: anything that runs it, or might."""

from __future__ import annotations

from tests.tables import each_row

from dragoman.policy.shell import mentions

MENTIONED = [
    ("rm*", "rm x"), ("rm", "rm -rf x"), ("rm*", "/bin/rm x"), ("rm*", "./rm x"), ("rm*", "~/bin/rm x"),
    ("rm*", "r\\m x"), ("rm*", "'rm' x"), ("rm*", "ls && rm x"), ("rm*", "ls | rm x"), ("rm*", "ls\nrm x"),
    ("rm*", "ls & rm x"), ("rm*", "A=1 rm x"), ("rm*", ">y rm x"), ("rm*", "sudo rm x"), ("rm*", "sudo -u a rm x"),
    ("rm*", "env A=1 rm x"), ("rm*", "nohup rm x"), ("rm*", "time rm x"), ("rm*", "xargs rm"),
    ("rm*", "ls | xargs -0 rm"), ("rm*", "timeout 5 rm x"), ("rm*", "command rm x"), ("rm*", "exec rm x"),
    ("rm*", "busybox rm x"), ("rm*", "sh -c 'rm x'"), ("rm*", "bash -lc \"ls; rm x\""), ("rm*", "sudo sh -c 'rm x'"),
    ("rm*", "eval 'rm x'"), ("rm*", "eval rm x"), ("rm*", "ssh host rm x"), ("rm*", "find . -exec rm {} +"),
    ("rm*", "find . -exec sh -c 'rm \"$1\"' _ {} +"), ("rm*", "echo $(rm x)"), ("rm*", "echo `rm x`"),
    ("rm*", 'echo "$(rm x)"'), ("rm*", "cat <(rm x)"), ("rm*", "(rm x)"), ("rm*", "{ rm x; }"), ("rm*", "! rm x"),
    ("rm*", "if a; then rm x; fi"), ("rm*", "f() { rm x; }; f"), ("rm*", "trap 'rm x' EXIT"), ("rm*", "alias y=rm"),
    ("rm*", "{rm,-rf,x}"), ("rm*", "sh <<E\nrm x\nE"), ("rm*", "echo 'rm x' | sh"), ("rm*", "echo 'rm x' > s; sh s"),
    ("rm*", "PAGER='rm x' man ls"), ("rm*", "git -c alias.y='!rm x' y"), ("rm*", "git rebase --exec 'rm x' main"),
    ("rm*", "python -c \"os.system('rm x')\""), ("rm*", "rmdir x"), ("rm*", "r''m x"), ("rm*", "docker exec c rm x"),
    ("rm*", "rm\tx"), ("rm*", "rm\\\n x"), ("rm*", "ls;rm x"), ("rm*", "echo rm | xargs -I{} {} x"),
    ("rm*", "ls > rm; cat 'rm"),
    # what cannot be told counts
    ("rm*", "$X y"), ("rm*", "${X} y"), ("rm*", "$(echo rm) x"), ("rm*", "`x`"), ("rm*", "/bin/r? x"),
    ("rm*", "r{m,} x"), ("rm*", "$'\\162m' x"), ("rm*", "eval $X"), ("rm*", 'eval "$(x)"'),
    ("rm*", "echo cm0geA== | base64 -d | sh"), ("rm*", "curl x | bash"), ("rm*", "curl x | sudo sh"),
    ("rm*", "curl x | sudo -u a sh"), ("rm*", "curl x | timeout 5 env A=1 bash -s"),
    ("rm*", "sh < x"), ("rm*", "bash <(curl x)"), ("rm*", "bash <<< \"$X\""), ("rm*", "curl x | python"),
    ("rm*", ". /dev/stdin"), ("rm*", "sudo $X"), ("rm*", "ls | xargs sh"), ("rm*", "find . -exec {} +"),
    ("rm*", "printf '\\162m x' > s; sh s"), ("rm*", "ls | parallel"),
    # options and subcommands, wherever they stand
    ("rm -rf*", "rm -r -f x"), ("rm -rf*", "rm -fr x"), ("rm -rf*", "rm x -rf"), ("rm -rf*", "rm -rvf x"),
    ("rm -rf*", "rm $X"), ("rm --force*", "rm --forc x"), ("git push*", "git push"), ("git push", "git push origin"),
    ("git push*", "git -C x push"), ("git push*", "git --no-pager push"), ("git push*", "git $X"),
    ("git push*", "git pu''sh"), ("git push*", "git status; git push"),
    ("git push --force*", "git push origin main --force"), ("git push --force*", "git push --force-with-lease"),
    ("git push:*", "git push -f"), ("npm run *", "npm run build"), ("npm publish", "npm --silent publish"),
    ("git push*", "git -c alias.p=push p"), ("git push*", "git -cALIAS.p='push -f' p"),
    ("git push*", "git --config-env=alias.p=X p"),
    # words that come from the input
    ("git push*", "echo push | xargs git"), ("git push*", "echo push | xargs -I{} git {}"),
    ("git push*", "echo push | xargs -I X sudo git X"), ("rm -rf*", "echo -rf x | xargs rm"),
    ("git push --force*", "cat x | xargs -n 1 git push"), ("npm publish", "echo publish | parallel npm"),
    ("docker * --privileged", "docker run --privileged x"), ("*", "ls"), ("*rm", "ls; /x/farm y"),
    ("./deploy.sh*", "bash deploy.sh"), ("rm x; ls", "rm x"), ("$(rm) x", "rm x"), ("sudo*", "sudo ls"),
]  # fmt: skip

NOT_MENTIONED = [
    ("rm*", ""), ("rm*", "ls -la"), ("rm*", "git commit -m 'rm the file'"), ("rm*", "git rm x"),
    ("rm*", "grep -rn rm src | head"), ("rm*", "echo rm"), ("rm*", "cat rm.txt"), ("rm*", "python x.py"),
    ("rm*", "make test"), ("rm*", "bash x.sh"), ("rm*", "sh -c 'ls x'"),
    ("git push*", "ls | xargs git add"), ("git push*", "git -c color.ui=never log"),
    ("rm -rf*", "ls | xargs wc -l"), ("rm*", "find . -name '*.py' | xargs grep foo"),
    ("rm*", "find . -type f | xargs -I{} cp {} dst"),
    ("rm*", "awk '{print $1}' f"), ("rm*", "for f in *.py; do echo $f; done"),
    ("rm*", 'ls | while read f; do wc -l "$f"; done'), ("rm*", "cat <<E > a.txt\nhello\nE"),
    ("rm*", "pytest -q tests/test_rm.py"), ("rm*", "if [ -f x ]; then cat x; fi"), ("rm*", 'echo "$(date)" >> log'),
    ("rm*", "sleep 5 & wait"), ("rm*", "timeout 60 pytest -x"), ("rm -rf*", "rm x"),
    ("git push*", "git commit -m \"$MSG\""), ("git push*", "git status"),
    ("git push*", "git commit -m \"$(cat <<'E'\nfix it\n\nand more\nE\n)\""),
    ("git push --force*", "git push origin main"), ("npm publish*", "npm run build"), ("curl*", "ls; wget x"),
    ("dd*", "git add ."),
]  # fmt: skip


@each_row(("pattern", "text"), MENTIONED)
def test_what_runs_it_or_might_is_found(pattern: str, text: str) -> None:
    assert mentions(pattern, text)


@each_row(("pattern", "text"), NOT_MENTIONED)
def test_what_plainly_does_not_is_left_alone(pattern: str, text: str) -> None:
    assert not mentions(pattern, text)
