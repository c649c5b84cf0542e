# shellcheck shell=bash
# PgBouncer in transaction mode, in front of the default PostgreSQL. See "Add a service" in tests/services for what each function promises.

# shellcheck disable=SC2034 # for the bare name
pgbouncer_default=1
# shellcheck disable=SC2034 # for --help
pgbouncer_versions='1'

pgbouncer_check_version() { [[ $1 == 1 ]]; }

# It stands in front of PostgreSQL, which is started too.
pgbouncer_up() {
    postgres_up "$postgres_default" >/dev/null
    pgbouncer_running 1 || pgbouncer_start
    printf 'export PGBOUNCER_URL=postgres://postgres@127.0.0.1:%s/postgres?sslmode=disable\n' "$(<"$(pgbouncer_home)/port")"
}

pgbouncer_running() {
    local home
    home=$(pgbouncer_home)
    [[ -s $home/pid && -s $home/port ]] || return 1
    process_has "$(<"$home/pid")" "$home/pgbouncer.ini" || return 1
    # A PostgreSQL that was started anew has another port.
    grep -q "port=$(postgres_port "$postgres_default") " "$home/pgbouncer.ini" && is_port_open "$(<"$home/port")"
}

pgbouncer_describe() {
    local home
    home=$(pgbouncer_home)
    printf 'pid %s, 127.0.0.1:%s, %s' "$(<"$home/pid")" "$(<"$home/port")" "$home"
}

pgbouncer_down() {
    local home pid=
    home=$(pgbouncer_home)
    [[ -d $home ]] || return 0
    [[ ! -s $home/pid ]] || pid=$(<"$home/pid")
    if process_has "$pid" "$home/pgbouncer.ini"; then
        kill -TERM "$pid"
        for _ in {1..100}; do
            process_has "$pid" "$home/pgbouncer.ini" || break
            sleep 0.1
        done
        ! process_has "$pid" "$home/pgbouncer.ini" || die "PgBouncer, pid $pid, did not stop in 10 s"
    fi
    rm -rf -- "$home"
}

# --- below: only for this file ---

pgbouncer_home() { printf '%s/pgbouncer-1' "$(services_home)"; }

pgbouncer_start() {
    local home port user=()
    command -v pgbouncer >/dev/null || [[ -x /usr/sbin/pgbouncer ]] || apt_install pgbouncer
    pgbouncer_down
    home=$(pgbouncer_home)
    port=$(free_port)
    mkdir -m 755 "$home"
    cat >"$home/pgbouncer.ini" <<INI
[databases]
* = host=127.0.0.1 port=$(postgres_port "$postgres_default") user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
server_idle_timeout = 3
max_client_conn = 200
ignore_startup_parameters = extra_float_digits
logfile = $home/log
pidfile = $home/pid
INI
    if is_root; then
        chown -R postgres: "$home"
        user=(-u postgres)
    fi
    printf '%s' "$port" >"$home/port"
    PATH=$PATH:/usr/sbin pgbouncer -q -d "${user[@]}" "$home/pgbouncer.ini" >&2 || { cat "$home/log" >&2 && die 'PgBouncer did not start'; }
    for _ in {1..100}; do
        if pgbouncer_running 1; then
            say "PgBouncer is ready on 127.0.0.1:$port"
            return
        fi
        sleep 0.1
    done
    cat "$home/log" >&2 || true
    die 'PgBouncer did not start'
}
