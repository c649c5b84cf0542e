/* What a power cut would leave of a database: each of its files as it was at its last sync, in another directory.
 *
 * For LD_PRELOAD. Files whose names begin with $INBOX_WATCHED are copied to $INBOX_DISK whenever they have been synced. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void must(int holds, const char *what) {
    if (!holds) {
        perror(what);
        abort();
    }
}

static void keep(int fd) {
    const char *watched = getenv("INBOX_WATCHED"), *disk = getenv("INBOX_DISK");
    char link[64], path[PATH_MAX], to[2 * PATH_MAX], made[2 * PATH_MAX + 8], page[1 << 16];
    if (!watched || !disk) {
        return;
    }
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    must(length >= 0, "readlink");
    path[length] = 0;
    if (strncmp(path, watched, strlen(watched)) != 0) {
        return;
    }
    snprintf(to, sizeof to, "%s/%s", disk, strrchr(path, '/') + 1);
    snprintf(made, sizeof made, "%s.%d", to, (int)getpid());
    int out = open(made, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    must(out >= 0, "open");
    off_t at = 0;
    ssize_t got;
    while ((got = pread(fd, page, sizeof page, at)) > 0) {
        must(write(out, page, (size_t)got) == got, "write");
        at += got;
    }
    must(got == 0 && close(out) == 0 && rename(made, to) == 0, "copy");
    snprintf(made, sizeof made, "%s.syncs", to);
    int log = open(made, O_CREAT | O_APPEND | O_WRONLY, 0600);
    must(log >= 0 && write(log, ".", 1) == 1 && close(log) == 0, "count");
}

static int synced(const char *how, int fd) {
    int (*sync)(int) = (int (*)(int))dlsym(RTLD_NEXT, how);
    must(sync != NULL, how);
    int answer = sync(fd);
    if (answer == 0) {
        keep(fd);
    }
    return answer;
}

int fsync(int fd) { return synced("fsync", fd); }

int fdatasync(int fd) { return synced("fdatasync", fd); }
