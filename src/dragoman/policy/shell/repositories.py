"""The tables of `git` and `gh`: the subcommands that only read, and those that a star in a rule may cover."""

from __future__ import annotations

from dragoman.policy.shell.parser import words_of
from dragoman.policy.shell.rows import Row, make_row

# --------------------------------------------------------------------------------------------------------------------
# The subcommands of `git` that only read. Their operands are revisions, and files: outside a repository, or with a file
# outside of it, `git diff` compares any two files.

GIT = make_row("-P --no-pager --no-optional-locks --literal-pathspecs -C=folder", style="first")
"""The options before the subcommand."""

_DIFF = (
    "-psuWazwbRr -U[=number] -XBMC[=word] -l=number -IGS=word --patch --no-patch --unified[=number] --function-context "
    "--raw --patch-with-raw --patch-with-stat --numstat --shortstat --dirstat[=word] --cumulative "
    "--dirstat-by-file[=word] --check --summary --name-only --name-status --stat[=word] --stat-width=number "
    "--stat-name-width=number --stat-graph-width=number --stat-count=number --compact-summary --binary --full-index "
    "--color[=word] --no-color --ws-error-highlight=word --abbrev[=number] --no-abbrev --src-prefix=word "
    "--dst-prefix=word --line-prefix=word --no-prefix --inter-hunk-context=number --output-indicator-new=word "
    "--output-indicator-old=word --output-indicator-context=word --break-rewrites[=word] --find-renames[=word] "
    "--irreversible-delete --find-copies[=word] --find-copies-harder --no-renames --rename-empty --follow --minimal "
    "--ignore-all-space --ignore-space-change --ignore-space-at-eol --ignore-cr-at-eol --ignore-blank-lines "
    "--ignore-matching-lines=word --indent-heuristic --patience --histogram --diff-algorithm=word --anchored=word "
    "--word-diff[=word] --word-diff-regex=word --color-words[=word] --color-moved[=word] --no-color-moved "
    "--color-moved-ws=word --relative[=word] --no-relative --text --exit-code --quiet --no-ext-diff --no-textconv "
    "--ignore-submodules[=word] --pickaxe-all --pickaxe-regex --find-object=word --diff-filter=word --merge-base "
    "--cached --staged --ours --theirs --base --no-indent-heuristic --rotate-to=word --skip-to=word "
)
_REVISIONS = (
    "-iEFPgcmtq -nL=word --max-count=number --skip=number --since=word --after=word --until=word --before=word "
    "--author=word --committer=word --grep=word --all-match --invert-grep --regexp-ignore-case --basic-regexp "
    "--extended-regexp --fixed-strings --perl-regexp --merges --no-merges --min-parents=number --max-parents=number "
    "--first-parent --not --all --branches[=word] --tags[=word] --remotes[=word] --glob=word --exclude=word --reflog "
    "--cherry-mark --cherry-pick --left-only --right-only --cherry --walk-reflogs --merge --boundary "
    "--simplify-by-decoration --full-history --dense --sparse --simplify-merges --ancestry-path --date-order "
    "--author-date-order --topo-order "
    "--reverse --no-walk[=word] --pretty[=format] --format=format --abbrev-commit --no-abbrev-commit --oneline "
    "--encoding=encoding --expand-tabs[=number] --no-expand-tabs --notes[=word] --no-notes --relative-date --date=word "
    "--parents --children --left-right --graph --no-graph --source --use-mailmap --mailmap --no-mailmap "
    "--clear-decorations --decorate-refs=word --decorate-refs-exclude=word --decorate[=word] --no-decorate --log-size "
    "--diff-merges=merges --no-diff-merges --cc --combined-all-paths --root --show-pulls --ignore-missing --no-color "
    "-d --dd "
)
_LISTED = (
    "--color[=word] --no-color --sort=sorting --format=format --contains[=word] --no-contains[=word] --merged[=word] "
    "--no-merged[=word] --points-at[=word] -i --ignore-case --column[=word] --no-column --abbrev[=number] --no-abbrev "
)
_CHOOSING = words_of("-l --list --contains --no-contains --merged --no-merged --points-at")
_GREP = (
    "-viwaIrEGFPnhHlLzocqpW -mABC=number -e#=word -f#=read --cached --untracked --exclude-standard --invert-match "
    "--ignore-case --word-regexp --text --recursive --no-recursive --max-depth=number --extended-regexp "
    "--basic-regexp --fixed-strings --perl-regexp --line-number --column --full-name --files-with-matches --name-only "
    "--files-without-match --null --only-matching --count --color[=word] --no-color --break --heading "
    "--context=number --before-context=number --after-context=number --threads=number --show-function "
    "--function-context --and --or --not --quiet --all-match --max-count=number --no-textconv"
)


def _git(options: str, operands: str = "read*", **traits: object) -> Row:
    return make_row(options, operands, always_here=True, **traits)


_GIT_READING: dict[str, Row] = {
    "status": _git("-vsbzM -u[=word] --verbose --short --branch --show-stash --ahead-behind --no-ahead-behind "
                   "--porcelain[=word] --long --null --untracked-files[=word] --ignored[=word] "
                   "--ignore-submodules[=word] --column[=word] --no-column --no-renames --find-renames[=word] "
                   "--renames"),
    "diff": _git(_DIFF),
    **dict.fromkeys(("diff-tree", "diff-index", "diff-files"), _git(
        _DIFF + "-cmt --cc --root --no-commit-id --always")),
    **dict.fromkeys(("log", "show", "whatchanged"), _git(_DIFF + _REVISIONS, numbers="-")),
    "rev-list": _git(_REVISIONS + "-sz --count --objects --timestamp --header --disk-usage[=word] --use-bitmap-index",
                     numbers="-"),
    "reflog": _git(_DIFF + _REVISIONS, "", numbers="-"),
    "reflog show": _git(_DIFF + _REVISIONS, numbers="-"),
    "shortlog": _git(_REVISIONS.replace("-nL=word", "-n -L=word") + "-se -w[=word] --committer --numbered --summary "
                     "--email --group=format"),
    **dict.fromkeys(("blame", "annotate"), _git(
        "-bfnpctlsew -CM[=word] -L=word -S=read --incremental --root --show-stats --progress --no-progress "
        "--score-debug --show-name --show-number --porcelain --line-porcelain --show-email --ignore-rev=word "
        "--ignore-revs-file=read --color-lines --color-by-age --minimal --contents=read --abbrev[=number] --date=word "
        "--first-parent --since=word --reverse")),
    "describe": _git("--contains --debug --all --tags --long --first-parent --abbrev[=number] --exact-match "
                     "--candidates=number --match=word --exclude=word --always"),
    "rev-parse": _git("--abbrev-ref[=word] --short[=number] --verify -q --quiet --symbolic --symbolic-full-name --all "
                      "--branches[=word] --tags[=word] --remotes[=word] --git-dir --git-common-dir --absolute-git-dir "
                      "--is-inside-git-dir --is-inside-work-tree --is-bare-repository --is-shallow-repository "
                      "--show-toplevel --show-prefix --show-cdup "
                      "--show-object-format[=word] --default=word --revs-only --no-revs --flags --no-flags "
                      "--local-env-vars --disambiguate=word --path-format=word --git-path=word"),
    "ls-files": _git("-ztvfcdmoisku -x=word -X=read --cached --deleted --modified --others --ignored --stage --killed "
                     "--directory --eol --no-empty-directory --unmerged --resolve-undo --exclude=word "
                     "--exclude-from=read --exclude-standard --full-name --error-unmatch "
                     "--with-tree=word --abbrev[=number] --deduplicate --sparse --format=word"),
    "ls-tree": _git("-drtzl --long --name-only --name-status --object-only --full-name --full-tree --format=word "
                    "--abbrev[=number]"),
    "cat-file": _git("-epts --batch[=word] --batch-check[=word] --batch-all-objects --unordered --buffer"),
    "name-rev": _git("--name-only --tags --refs=word --exclude=word --all --undefined --always"),
    "merge-base": _git("-a --all --octopus --independent --is-ancestor --fork-point"),
    "count-objects": _git("-vH --verbose --human-readable", ""),
    "grep": _git(_GREP, "word read*", numbers="-", searches=True),
    "for-each-ref": _git(_LISTED + "--count=number -spt --shell --perl --python --tcl"),
    "show-ref": _git("-dsq --tags --heads --verify --head --dereference --hash[=number] --abbrev[=number] --quiet"),
    "show-branch": _git("-arg --all --remotes --current --topo-order --date-order --sparse --list --sha1-name "
                        "--no-name --topics --color[=word] --no-color --merge-base --independent"),
    "check-ignore": _git("-qvzn --quiet --verbose --stdin --non-matching --no-index"),
    "check-attr": _git("-az --all --cached --stdin"),
    "cherry": _git("-v --abbrev[=number]"),
    "range-diff": _git(_DIFF + "--creation-factor=number --no-dual-color --left-only --right-only"),
    "version": _git("--build-options", ""),
    "branch": _git(_LISTED + "-lavr --list --all --verbose --remotes --show-current", listing=_CHOOSING),
    "tag": _git(_LISTED + "-l -n[=number] --list", listing=_CHOOSING | {"-n"}),
    "remote": _git("-v --verbose", ""),
    "remote get-url": _git("--push --all", "name"),
    "stash list": _git(_DIFF + _REVISIONS, numbers="-"),
    "stash show": _git(_DIFF + "--include-untracked --only-untracked"),
    "worktree list": _git("-vz --verbose --porcelain", ""),
    # Settings of the user may contain keys, so that only single ones that cannot are shown.
    "config": _git("--get#=key --get-all#=key --local --worktree --show-origin --show-scope --name-only -z --null "
                   "--type=word --bool --int --path --includes --no-includes --list^ -l^ --get-regexp^#=word "
                   "--get-urlmatch^=word,word --global^ --system^", "word",
                   listing=words_of("--get --get-all --get-regexp --get-urlmatch")),
    "config get": _git("--all --local --worktree --show-origin --show-scope", "key"),
    "config list": _git("--local --worktree --show-origin --show-scope --name-only", "", leaves=True),
}  # fmt: skip

# --------------------------------------------------------------------------------------------------------------------
# The subcommands of `git` that change the repository. A star in a rule covers their known words. A remote is a name, so
# that it is one of those in the settings; `git push ./folder` and `git fetch ext::...` are not covered.


def _git_acting(options: str, operands: str = "", **traits: object) -> Row:
    return make_row(options, operands, acts=True, **traits)


_MERGING = "--no-edit --ff --no-ff --ff-only --squash --no-squash --stat -n --no-stat --autostash --no-autostash "
_GIT_ACTING: dict[str, Row] = {
    "add": _git_acting("-nvuAN --dry-run --verbose --update --intent-to-add --all --ignore-removal --refresh "
                       "--ignore-errors --force! -f!", "file*"),
    "commit": _git_acting("-qvsa -m=text --quiet --verbose --message=text --signoff --no-signoff --all --dry-run "
                          "--short --branch --porcelain --long --status --no-status --allow-empty --amend! --no-edit "
                          "--no-verify! -n! --no-gpg-sign --trailer=text", "file*"),
    "checkout": _git_acting("-qdt -b=revision --quiet --detach --track --no-track --guess --no-guess --progress "
                            "--force! -f! -B!=revision", "revision file*"),
    "switch": _git_acting("-qdt -c=revision --create=revision --quiet --detach --track --no-track --guess --no-guess "
                          "--progress --force! -f! --discard-changes! -C!=revision", "revision revision"),
    "restore": _git_acting("-qSW -s=revision --quiet --staged --worktree --source=revision --progress", "file*"),
    "stash": _git_acting("", ""),
    "stash push": _git_acting("-kuaq -m=text --keep-index --no-keep-index --include-untracked --all --quiet "
                              "--message=text --staged", "file*"),
    **dict.fromkeys(("stash pop", "stash apply"), _git_acting("-q --index --quiet", "revision")),
    "fetch": _git_acting("-vqtpPn -j=number --verbose --quiet --all --tags --no-tags --prune --prune-tags --dry-run "
                         "--progress --depth=number --unshallow --jobs=number", "name revision*"),
    "pull": _git_acting(_MERGING + "-vqrtp --verbose --quiet --rebase[=word] --no-rebase --all --tags --prune "
                        "--progress --dry-run", "name revision*"),
    "push": _git_acting("-vqun --verbose --quiet --set-upstream --dry-run --porcelain --progress --atomic "
                        "--follow-tags --tags! --all! --force! -f! --force-with-lease! --delete! -d!",
                        "name revision*"),
    "merge": _git_acting(_MERGING + "-vq -m=text --verbose --quiet --message=text --abort --continue --commit "
                         "--no-commit --log[=number] --no-log", "revision*"),
    "rebase": _git_acting("-qvn --quiet --verbose --autostash --no-autostash --autosquash --continue --abort --skip "
                          "--quit --onto=revision --keep-base --stat --no-stat", "revision revision"),
    "cherry-pick": _git_acting("-nsx --no-commit --signoff --continue --abort --skip --quit --ff", "revision*"),
    "revert": _git_acting("-ns --no-commit --no-edit --signoff --continue --abort --skip --quit", "revision*"),
    "reset": _git_acting("-qN --quiet --mixed --soft --intent-to-add --hard! --merge! --keep!", "revision file*"),
    "mv": _git_acting("-vnk --verbose --dry-run", "file file*"),
    "rm": _git_acting("-nqr --dry-run --quiet --cached --ignore-unmatch --force! -f!", "file*"),
    "init": _git_acting("-q --quiet -b=name --initial-branch=name", ""),
}  # fmt: skip

# --------------------------------------------------------------------------------------------------------------------
# The subcommands of `gh` that only read. It reads with the user's own token, so only what certainly concerns this
# repository counts as inside: numbers, and options that name nothing else.

_GH = (
    "-cdv -slaABLbe=label -R^=word -q^=jq --comments --name-only --patch --log --log-failed --verbose --required "
    "--draft --repo^=word --limit=label --json=label --label=label --assignee=label --author=label --base=label "
    "--branch=label --status=label --state=label --search^=word --head=label --workflow=label --user=label "
    "--milestone^=word --jq^=jq --color=word"
)
_GH_READING = {
    **dict.fromkeys(
        ("pr view", "pr list", "pr diff", "pr checks", "pr status", "issue view", "issue list", "issue status",
         "release view", "release list", "run view", "run list", "workflow view", "workflow list", "label list",
         "cache list"),
        make_row(_GH, "item"),
    ),
    "repo view": make_row("-b=label --branch=label --json=label", "label"),
    **dict.fromkeys(
        ("repo list", "gist view", "gist list", "search code", "search commits", "search issues", "search prs",
         "search repos"),
        make_row("-L=word --limit=word --json=word -R=word --repo=word --owner=word --language=word --state=word "
                 "--author=word --sort=word", "word*", leaves=True),
    ),
}  # fmt: skip

REPOSITORIES: dict[str, Row] = {
    **{f"git {name}": row for name, row in {**_GIT_READING, **_GIT_ACTING}.items()},
    **{f"gh {name}": row for name, row in _GH_READING.items()},
}
