# Sourced by tests/run, etc/demo and .ci/run: a virtual environment inside the checkout, made by need.
#
#   environment EXTRAS    afterwards $python runs this checkout, with those extras of pyproject.toml
#                         (comma-separated) installed in it
#
# Needs `root`, the checkout. Installs again only when pyproject.toml, the constraints or the Python have
# changed, or when an extra is missing.

# Containers set it often. Hundreds of processes would each compile all that they import.
unset PYTHONDONTWRITEBYTECODE

environment() {
    python="$root/.venv/bin/python"
    wanted=$1
    state=$(cat "$root/pyproject.toml" "$root/etc/constraints.txt" | cksum)
    if [ -f "$root/.venv/installed" ] && usable "$python"; then
        { read -r installed_state && read -r installed; } < "$root/.venv/installed"
        if [ "$installed_state" = "$state" ]; then
            missing=
            for extra in $(echo "$wanted" | tr , ' '); do
                case ",$installed," in *",$extra,"*) ;; *) missing=yes ;; esac
            done
            [ -z "$missing" ] && return
        fi
        [ -z "$installed" ] || wanted="$installed${wanted:+,$wanted}"
    fi

    if ! usable "$python"; then
        base=$(find_python) || exit 1
        echo "Making a virtual environment in .venv with $("$base" -V)." >&2
        "$base" -m venv --clear "$root/.venv" || exit 1
    fi
    rm -f "$root/.venv/installed"
    echo "Installing smqpd with what it needs${wanted:+ ($wanted)} into .venv; this takes a minute or two." >&2
    attempt=1
    until PIP_CONSTRAINT="$root/etc/constraints.txt" "$python" -m pip install -qq \
            --disable-pip-version-check --retries 10 --timeout 60 --editable "$root${wanted:+[$wanted]}"; do
        if [ $attempt -ge 3 ]; then
            echo "$0: cannot install; see above, then try again: what has arrived is kept." >&2
            exit 1
        fi
        attempt=$((attempt + 1))
        echo "Trying once more." >&2
    done
    printf '%s\n%s\n' "$state" "$wanted" > "$root/.venv/installed"
}

# Whether a Python is there, new enough, and can make virtual environments.
usable() {
    "$1" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2> /dev/null
}

find_python() {
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14}; do
        if usable "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    cat >&2 <<MESSAGE
$0: needs Python 3.11 or newer with its venv module, and found none.
  Debian 12, Ubuntu 24.04 or newer:  sudo apt-get install python3 python3-venv
  Fedora:                            sudo dnf install python3
  macOS:                             brew install python
If it has another name, give it: PYTHON=/path/to/python3 $0
MESSAGE
    return 1
}
