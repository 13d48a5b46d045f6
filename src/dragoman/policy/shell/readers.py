"""The table of programs that only read: their options, and what their operands and values name."""

from __future__ import annotations

from dragoman.policy.shell.parser import words_of
from dragoman.policy.shell.rows import Row, make_row

# --------------------------------------------------------------------------------------------------------------------
# An option that is not here is not known, and a command with it needs an approval. That includes abbreviations of long
# options, and options that follow links below a folder (`find -L`), unless a file of the workspace is checked for that.

_GNU = "--help --version "
_EVERY_SUM = _GNU + "-btwz --binary --tag --text --zero --quiet --status --strict --warn --ignore-missing"


def _free(options: str = "", operands: str = "read*", **traits: object) -> Row:
    """A program of which no option writes or runs anything, whether it is known or not."""
    return make_row(_GNU + options, operands, is_free=True, is_exact=True, **traits)


def _strict(options: str = "", operands: str = "read*", **traits: object) -> Row:
    return make_row(_GNU + options, operands, is_exact=True, **traits)


_TEXT = make_row(style="text")
_DIFFERENCE = (
    "-qsaceyptTNiEZbwBdnur -CUW=number -FISx=word -X=read --normal --brief --report-identical-files "
    "--context[=number] --unified[=number] --ed --side-by-side --width=number --left-column --suppress-common-lines "
    "--show-c-function "
    "--show-function-line=word --label=word --expand-tabs --initial-tab --tabsize=number --suppress-blank-empty "
    "--recursive --no-dereference --new-file --unidirectional-new-file --ignore-file-name-case --exclude=word "
    "--exclude-from=read --starting-file=word --from-file=tree --to-file=tree --ignore-case --ignore-tab-expansion "
    "--ignore-trailing-space --ignore-space-change --ignore-all-space --ignore-blank-lines --text --strip-trailing-cr "
    "--ignore-matching-lines=word --minimal --speed-large-files --horizon-lines=number --color[=word]"
)
_GREP = (
    "-EFGPiwxzsvVbnHhoqaILlcTZUyu -r. -R.+ -e#=word -f#=read -mABC=number -d.=word -D=word --extended-regexp "
    "--fixed-strings --basic-regexp --perl-regexp --regexp#=word --file#=read --ignore-case --no-ignore-case "
    "--word-regexp --line-regexp --null-data --no-messages --invert-match --max-count=number --byte-offset "
    "--line-number --line-buffered --with-filename --no-filename --label=word --only-matching --quiet --silent "
    "--binary-files=word "
    "--text --recursive. --dereference-recursive.+ --include=word --exclude=word --exclude-from=read "
    "--exclude-dir=word --files-without-match --files-with-matches --count --initial-tab --null "
    "--before-context=number --after-context=number --context=number --group-separator=word --no-group-separator "
    "--color[=word] --colour[=word] --binary"
)
_RIPGREP = (
    "-bscFiIvnxNoPpqSaUwHlu0V -e#=word -f#=read -AmMjBC=number -E=encoding -g=word -tT=word -r=word "
    "--after-context=number "
    "--auto-hybrid-regex --before-context=number --binary --block-buffered --byte-offset --case-sensitive "
    "--color=word --colors=word --column --context=number --context-separator=word --count --count-matches --crlf "
    "--dfa-size-limit=word --encoding=encoding --engine=word --field-context-separator=word "
    "--field-match-separator=word "
    "--file#=read --files# --files-with-matches --files-without-match --fixed-strings --glob=word "
    "--glob-case-insensitive --heading --hidden --iglob=word --ignore-case --ignore-file=read "
    "--ignore-file-case-insensitive --include-zero --invert-match --json --line-buffered --line-number --line-regexp "
    "--max-columns=number --max-columns-preview --max-count=number --max-depth=number --maxdepth=number "
    "--max-filesize=word --mmap --multiline --multiline-dotall --no-config --no-filename --no-heading --no-hidden "
    "--no-ignore --no-ignore-dot --no-ignore-exclude --no-ignore-files --no-ignore-global --no-ignore-messages "
    "--no-ignore-parent --no-ignore-vcs --no-line-number --no-messages --no-mmap --no-require-git --no-unicode --null "
    "--null-data --one-file-system --only-matching --passthru --path-separator=word --pcre2 --pcre2-version --pretty "
    "--quiet --regex-size-limit=word --regexp#=word --replace=word --smart-case --sort=word --sortr=word --stats "
    "--text --threads=number --trim --type=word --type-add=word --type-clear=word --type-list# --type-not=word "
    "--unrestricted --vimgrep --with-filename --word-regexp"
)
_FIND = (
    "-H -P -a -and -o -or -not -daystart -regextype=word -warn -nowarn -d -depth -help --help "
    "-ignore_readdir_race -maxdepth=number -mindepth=number -mount -noignore_readdir_race -noleaf -version --version "
    "-xdev -amin=word -anewer=read -atime=word -cmin=word -cnewer=read -ctime=word -empty -executable -false "
    "-fstype=word -gid=word -group=word -ilname=word -iname=word -inum=word -ipath=word -iregex=word "
    "-iwholename=word -links=word -lname=word -mmin=word -mtime=word -name=word -newer=read -newermt=moment "
    "-newerat=moment -newerct=moment -newermm=read -newerma=read -newermc=read -nogroup -nouser -path=word -perm=word "
    "-readable -regex=word -samefile=read -size=word -true -type=word -uid=word -used=word -user=word -wholename=word "
    "-writable -xtype=word -ls -print -print0 -printf=word -prune -quit"
)
_FD = (
    "-HIusigaFpq01 -dc=word -teES=word --hidden --no-ignore --no-ignore-vcs --unrestricted --case-sensitive "
    "--ignore-case --glob --regex --fixed-strings --absolute-path --full-path --quiet --print0 "
    "--max-depth=number --min-depth=number --exact-depth=number --max-results=number --type=word --extension=word "
    "--exclude=word --size=word --changed-within=word --changed-before=word --owner=word --color=word --threads=number "
    "--prune --one-file-system --strip-cwd-prefix"
)
_TREE = (
    "-adfixpugshDFqNQrtcUvJXnCAS -LIPH=word -T=word --gitignore --ignore-case --matchdirs --metafirst --prune --info "
    "--noreport --charset=word --filelimit=number --timefmt=word --sort=word --dirsfirst --filesfirst --du --si "
    "--inodes --device --help --version"
)
_LIST = (
    "-aAbBcCdDfFgGhHiklmnNopqQrRsStuUvxXZ1 -ITw=word --all --almost-all --author --escape --block-size=word "
    "--ignore-backups --color[=word] --directory --dired --classify[=word] --file-type --format=word --full-time "
    "--group-directories-first --no-group --human-readable --si --dereference-command-line "
    "--dereference-command-line-symlink-to-dir --hide=word --hyperlink[=word] --indicator-style=word --inode "
    "--ignore=word --kibibytes --numeric-uid-gid --literal --hide-control-chars --show-control-chars --quote-name "
    "--quoting-style=word --reverse --recursive --size --sort=word --time=word --time-style=word --tabsize=number "
    "--width=number --context --zero"
)
_SORT = (
    "-bdfgiMhnRrVcCmsuz -kt=word --ignore-leading-blanks --dictionary-order --ignore-case --general-numeric-sort "
    "--ignore-nonprinting --month-sort --human-numeric-sort --numeric-sort --random-sort --random-source=read "
    "--reverse --sort=word --version-sort --check[=word] --debug --key=word --merge --stable "
    "--field-separator=word --parallel=number --unique --zero-terminated"
)
_TEST = make_row(
    "-b -c -d -e -f -g -h -k -p -r -s -t -u -w -x -G -L -N -O -S -z -n -a -o -ef -nt -ot -eq -ne -lt -le -gt -ge",
    "read*",
    style="words",
)
# The columns with the command line of a process count as outside: it may contain the secrets of others, as its
# environment does. Options without a hyphen (`ps aux`, `ps e`) are not known. A value that `ps` does not accept may
# make it read all options again, as if they had no hyphen: so values are those that it accepts.
_PROCESSES = (
    "-Aead -f^ -C=process -p=processes -o=columns --pid=processes --ppid=processes --format=columns --no-headers "
    "--sort=order --version"
)
READERS: dict[str, Row] = {
    "cat": _free("-AbeEnstTuv --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs "
                 "--show-nonprinting"),
    "tac": _free("-br -s=word --before --regex --separator=word"),
    "rev": _free("-hV"),
    "nl": _free("-p -bdfhilnsvw=word --body-numbering=word --section-delimiter=word --footer-numbering=word "
                "--header-numbering=word --line-increment=word --join-blank-lines=word --number-format=word "
                "--no-renumber --number-separator=word --starting-line-number=word --number-width=word"),
    "wc": _free("-cmlLw --bytes --chars --lines --max-line-length --words"),
    "head": _free("-qvz -cn=number --bytes=number --lines=number --quiet --silent --verbose --zero-terminated",
                  numbers="-"),
    # Without the options that follow a file: such a command does not end.
    "tail": _free("-qvz -cn=number --bytes=number --lines=number --quiet --silent --verbose --zero-terminated",
                  numbers="-+"),
    "stat": _free("-Lft -c=word --dereference --file-system --cached=word --format=word --printf=word --terse"),
    "basename": _free("-az -s=word --multiple --suffix=word --zero", "word*"),
    "dirname": _free("-z --zero", "word*"),
    "realpath": _free("-emLPqsz --canonicalize-existing --canonicalize-missing --logical --physical --quiet "
                      "--relative-to=read --relative-base=read --strip --no-symlinks --zero"),
    "readlink": _free("-femnqsvz --canonicalize --canonicalize-existing --canonicalize-missing --no-newline --quiet "
                      "--silent --verbose --zero"),
    **dict.fromkeys(words_of("md5sum sha1sum sha224sum sha256sum sha384sum sha512sum"), _free(_EVERY_SUM)),
    "b2sum": _free(_EVERY_SUM + " -l=number --length=number"),
    "cksum": _free("-z -al=word --algorithm=word --length=number --tag --untagged --zero --debug"),
    "sum": _free("-rs --sysv"),
    **dict.fromkeys(("base64", "base32"), _free("-di -w=number --decode --ignore-garbage --wrap=number", "read")),
    "strings": _free("-adfwo -nteUs=word --all --data --print-file-name --bytes=number --radix=word "
                     "--include-all-whitespace --encoding=word --unicode=word --output-separator=word", "source*"),
    "comm": _free("-123z --check-order --nocheck-order --output-delimiter=word --total --zero-terminated", "read read"),
    "cmp": _free("-bls -in=word --print-bytes --ignore-initial=word --verbose --bytes=word --quiet --silent",
                 "read read word word"),
    "join": _free("-iz -aejotv12=word --ignore-case --check-order --nocheck-order --header --zero-terminated",
                  "read read"),
    "paste": _free("-sz -d=word --delimiters=word --serial --zero-terminated"),
    **dict.fromkeys(("expand", "unexpand"), _free("-ia -t=word --initial --all --first-only --tabs=word")),
    "fold": _free("-bs -w=number --bytes --spaces --width=number", numbers="-"),
    "fmt": _free("-cstu -pwg=word --crown-margin --prefix=word --split-only --tagged-paragraph --uniform-spacing "
                 "--width=number --goal=number", numbers="-"),
    "od": _free("-abcdfilosxv -AjNSt=word -w[=number] --address-radix=word --endian=word --skip-bytes=word "
                "--read-bytes=word --strings[=number] --format=word --output-duplicates --width[=number]"),
    "hexdump": _free("-bcCdoxv -L[=word] -ens=word --one-byte-octal --one-byte-char --canonical --two-bytes-decimal "
                     "--two-bytes-octal --two-bytes-hex --color[=word] --format=word --length=word --skip=word "
                     "--no-squeezing"),
    "cut": _free("-nsz -bcdf=word --bytes=word --characters=word --delimiter=word --fields=word --complement "
                 "--only-delimited --output-delimiter=word --zero-terminated"),
    "column": _free("-tdeLJx -nONlEHRTWripcos=word --table --table-name=word --table-order=word --table-columns=word "
                    "--table-columns-limit=word --table-noextreme=word --table-noheadings --table-header-repeat "
                    "--table-hide=word --table-right=word --table-truncate=word --table-wrap=word --keep-empty-lines "
                    "--json --tree=word --tree-id=word --tree-parent=word --output-width=word "
                    "--output-separator=word --separator=word --fillrows"),
    "tr": _free("-cCdst --complement --delete --squeeze-repeats --truncate-set1", "word word"),
    "seq": _free("-w -fs=word --format=word --separator=word --equal-width", "word word word", numbers="-"),
    "numfmt": _free("-z -d=word --delimiter=word --field=word --format=word --from=word --from-unit=word --grouping "
                    "--header[=number] --invalid=word --padding=word --round=word --suffix=word --to=word "
                    "--to-unit=word --zero-terminated --debug", "word*"),
    **dict.fromkeys(("grep", "egrep", "fgrep"), _free(_GREP, "word read*", numbers="-")),
    "ls": _free(_LIST, here=True),
    "du": _free("-0abchklmPsSx -Bdt=word --null --all --apparent-size --block-size=word --bytes --total "
                "--max-depth=number --human-readable --inodes --count-links --no-dereference --separate-dirs --si "
                "--summarize --threshold=word --time[=word] --time-style=word --exclude-from=read -X=read "
                "--exclude=word --one-file-system", "search*", here=True),
    "df": _free("-ahHiklPTv -Btx=word --all --block-size=word --human-readable --si --inodes --local --no-sync "
                "--output[=word] --portability --total --type=word --print-type --exclude-type=word"),
    "free": _free("-bkmghltvw --bytes --kilo --mega --giga --tera --peta --kibi --mebi --gibi --tebi --pebi --human "
                  "--si --lohi --total --committed --wide", ""),
    "uptime": _free("-ps --pretty --since", ""),
    **dict.fromkeys(("whoami", "arch"), _free("", "")),
    "nproc": _free("--all --ignore=number", ""),
    "uname": _free("-asnrvmpio --all --kernel-name --nodename --kernel-release --kernel-version --machine --processor "
                   "--hardware-platform --operating-system", ""),
    "id": _free("-agGnruzZ --context --group --groups --name --real --user --zero", "word*"),
    "groups": _free("", "word*"),
    "pwd": _free("-LP", ""),
    "which": _free("-as --all", "program*"),
    "type": make_row("-afptP", "program*", is_free=True),
    **dict.fromkeys(("echo", "true", "false", ":"), _TEXT),
    **dict.fromkeys(("test", "["), _TEST),
    "cd": make_row("-LP", "folder"),
    "jq": make_row("-cnesrRCMSja --tab --indent=number --arg=word,text --argjson=word,text --slurpfile=word,read "
                   "--rawfile=word,read --args --jsonargs --compact-output --null-input --exit-status --slurp "
                   "--raw-output --raw-input --color-output --monochrome-output --sort-keys --join-output "
                   "--ascii-output --seq --stream --unbuffered --help --version", "jq read*", is_free=True),
    "diff": _strict(_DIFFERENCE, "tree tree", searches=True),
    "printf": make_row("", "printf text*", style="first"),
    "ps": make_row(_PROCESSES, "", is_apart=True),
    "sort": _strict(_SORT),
    "shuf": _strict("-erz -in=word --echo --input-range=word --head-count=number --repeat --zero-terminated"),
    "iconv": _strict("-cls -ft=encoding --from-code=encoding --to-code=encoding --list --silent"),
    "uniq": _strict("-cdDiuz -fsw=number --count --repeated --all-repeated[=word] --skip-fields=number --group[=word] "
                    "--ignore-case --skip-chars=number --unique --zero-terminated --check-chars=number", "read"),
    "xxd": make_row("-a -b -C -E -e -i -u -ps -p -d -c=number -g=number -l=word -n=word -o=word -s=word --help", "read",
                    style="early"),
    "file": _strict("-bcEiklLhnN0rv -eF=word --brief --checking-printout --exclude=word --separator=word --mime "
                    "--apple --extension --mime-type --mime-encoding --keep-going --list --dereference "
                    "--no-dereference --no-buffer --no-pad --print0 --raw"),
    "tree": make_row(_TREE, "search*", here=True, is_apart=True),
    "find": make_row(_FIND, "search*", style="words", here=True, is_exact=True),
    **dict.fromkeys(("fd", "fdfind"), make_row(_FD, "word search*", here=True)),
    "rg": make_row(_RIPGREP, "word search*", here=True, searches=True),
    "date": _strict("-Ru -d=moment -I[=word] -r=read --date=moment --debug --iso-8601[=word] --resolution --rfc-email "
                    "--rfc-3339=word --reference=read --utc --universal", "clock"),
    "hostname": make_row("-fsiId --fqdn --short --ip-address --all-ip-addresses --domain", ""),
    "sed": _strict("-nErsuz -e#=sed --quiet --silent --regexp-extended --separate --unbuffered --null-data --posix "
                   "--sandbox --expression#=sed -i![=word]", "sed read*"),
    **dict.fromkeys(("awk", "gawk", "mawk"), make_row("-Fv=word", "awk read*", style="first")),
}  # fmt: skip
# Without programs that files of a project can make run something else, even for this: yarn, pnpm, cargo, rustc, go,
# pytest.
_VERSIONS = words_of(
    "python python3 node npm bun deno ruby perl php java javac gcc clang make cmake git gh bash pip pip3 uv ruff mypy "
    "docker rg jq"
)
_VERSION = make_row("-V --version")
_LOCATION = make_row("-vV", "name")


def find_reader(words: tuple[str, ...]) -> Row | None:
    """Return the row of a program that only reads; None if the program may do anything."""
    program, *rest = words
    if program in _VERSIONS and (rest == ["--version"] or (rest == ["-V"] and program.startswith("python"))):
        return _VERSION
    if program == "command" and len(rest) == 2 and rest[0] in ("-v", "-V"):
        return _LOCATION
    return READERS.get(program)
