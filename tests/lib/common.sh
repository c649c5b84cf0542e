# shellcheck shell=bash
# What tests/run and tests/services share. Sourced, never run; works from any directory.

repo=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
# State of the services of this checkout. Two checkouts have two, and so never meet.
services_dir=${INBOX_SERVICES_DIR:-$repo/target/services}
[[ $services_dir == /* ]] || services_dir=$PWD/$services_dir

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*" && exit 1; }
is_root() { [[ $EUID -eq 0 ]]; }
is_port_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# free_port: prints a loopback port that nobody listens on, below the range the kernel hands out.
free_port() {
    local port
    for _ in {1..100}; do
        port=$((20000 + RANDOM % 10000))
        is_port_open "$port" || { printf '%s\n' "$port" && return; }
    done
    die "found no free port between 20000 and 29999"
}

# run_as USER COMMAND..: as USER when root, and as oneself otherwise (a laptop has no other user to be).
run_as() {
    local user=$1
    shift
    if is_root; then runuser -u "$user" -- "$@"; else "$@"; fi
}

# process_has PID WORD: whether PID lives and WORD is one word of its command line.
process_has() {
    [[ $1 =~ ^[0-9]+$ && -r /proc/$1/cmdline ]] || return 1
    tr '\0' '\n' <"/proc/$1/cmdline" | grep -qxF -- "$2"
}

# services_home: prints where the data and programs of services live. Servers that refuse root run as other users,
# so it is under /tmp, remembered in the state directory, when the checkout is hidden from other users.
services_home() {
    local memo=$services_dir/elsewhere
    if ! is_root || runuser -u nobody -- test -x "$services_dir"; then
        printf '%s\n' "$services_dir"
        return
    fi
    if [[ ! -s $memo || ! -d $(<"$memo") ]]; then
        mktemp -d /tmp/inbox-services.XXXXXXXX >"$memo"
        chmod 711 "$(<"$memo")"
    fi
    cat "$memo"
}

# apt_install PACKAGE..: for what a fresh Debian lacks.
apt_install() {
    { is_root && command -v apt-get >/dev/null; } || die "missing $*: install it, or run as root on Debian"
    say "installing $*"
    local options=(-qq -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120)
    apt-get "${options[@]}" update >&2 || say "apt-get update failed, going on with the lists at hand"
    DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" -y --no-install-recommends install "$@" >&2 \
        || die "apt-get could not install $*"
}
