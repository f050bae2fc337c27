/*
 * Preloaded into a process, this makes its file calls fail or hang, as broken disks and networks do.
 *
 * The environment variable FAULT_RULES names a file of rules, which is read at each call, so that a test can change it
 * while the process runs. A rule is a line "CALL NUMBER TEXT": calls on paths that contain TEXT fail with that errno.
 * CALL is "open" or "read"; "slow_read" sleeps for NUMBER milliseconds instead.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int rule(const char *call, const char *path) {
    char rules[4096], *line, *rest = NULL;
    const char *name = getenv("FAULT_RULES");
    if (!name || !path || strcmp(name, path) == 0) return 0;
    int fd = syscall(SYS_openat, AT_FDCWD, name, O_RDONLY);
    if (fd < 0) return 0;
    long size = syscall(SYS_read, fd, rules, sizeof(rules) - 1);
    syscall(SYS_close, fd);
    if (size <= 0) return 0;
    rules[size] = 0;
    for (line = strtok_r(rules, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char kind[32], text[1024];
        int number;
        if (sscanf(line, "%31s %d %1023s", kind, &number, text) == 3 && !strcmp(kind, call) && strstr(path, text))
            return number;
    }
    return 0;
}

static int fails(const char *call, const char *path) {
    int error = rule(call, path);
    if (error) errno = error;
    return error;
}

static int read_fails(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    long size = syscall(SYS_readlink, link, path, sizeof(path) - 1);
    if (size <= 0) return 0;
    path[size] = 0;
    int slow_ms = rule("slow_read", path);
    if (slow_ms) usleep(slow_ms * 1000);
    return fails("read", path);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define MODE_OF(flags) \
    int mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { va_list args; va_start(args, flags); mode = va_arg(args, int); va_end(args); }

int open(const char *path, int flags, ...) { MODE_OF(flags) return fails("open", path) ? -1 : NEXT(open)(path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE_OF(flags) return fails("open", path) ? -1 : NEXT(open64)(path, flags, mode); }
int openat(int dir, const char *path, int flags, ...) {
    MODE_OF(flags)
    return fails("open", path) ? -1 : NEXT(openat)(dir, path, flags, mode);
}
FILE *fopen(const char *path, const char *mode) { return fails("open", path) ? NULL : NEXT(fopen)(path, mode); }
FILE *fopen64(const char *path, const char *mode) { return fails("open", path) ? NULL : NEXT(fopen64)(path, mode); }
ssize_t read(int fd, void *to, size_t n) { return read_fails(fd) ? -1 : NEXT(read)(fd, to, n); }
ssize_t pread(int fd, void *to, size_t n, off_t at) { return read_fails(fd) ? -1 : NEXT(pread)(fd, to, n, at); }
ssize_t pread64(int fd, void *to, size_t n, off64_t at) { return read_fails(fd) ? -1 : NEXT(pread64)(fd, to, n, at); }
