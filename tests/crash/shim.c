/* Watches what a program does to the files of one folder, writes it to a log, and lets the n-th
 * call fail, or be the last. Preloaded (LD_PRELOAD); idle until `shim_watch`.
 *
 * The log has one record for each call that succeeded, in the order in which they took effect: a
 * `Record`, the path, the data (what was written; the new name of what was renamed). So has a sync
 * that failed, with an offset of -1. What is written to the oracle is in the same log, so that it
 * says what was acknowledged when.
 *
 * Linux, 64 bit: `off_t` and `off64_t` are the same.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* The order of FUNCTIONS in shim.py. */
enum { WRITE, PWRITE, FTRUNCATE, FDATASYNC, FSYNC, RENAME, UNLINK, CREATE, FUNCTIONS, ORACLE };
/* The order of ACTIONS in shim.py. */
enum { NONE, KILL, TEAR, SHORT, ERROR };

typedef struct {
    uint32_t function, path_length;
    uint64_t inode;
    int64_t offset; /* of a write; the new size */
    uint64_t data_length;
} Record;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int watching;
static char folder[PATH_MAX], oracle[PATH_MAX];
static size_t folder_length;
static int log_file = -1;
static long counts[FUNCTIONS];

static struct {
    int function; /* FUNCTIONS: any */
    char ending[64];
    long left;
    int action, error, lasting;
    long fired;
} fault;

void shim_watch(const char* watched, const char* acknowledged, const char* log) {
    snprintf(folder, sizeof folder, "%s", watched);
    snprintf(oracle, sizeof oracle, "%s", acknowledged);
    folder_length = strlen(folder);
    if (log[0]) {
        int opened =
            syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        log_file = fcntl(opened, F_DUPFD_CLOEXEC, 500); /* out of the way of the program's own */
        syscall(SYS_close, opened);
        if (log_file < 0) abort();
    }
    watching = 1;
}

/* From now on, the n-th call of a function (FUNCTIONS: of any) on a path with this ending; with
 * `lasting` all after it too. */
void shim_arm(int function, const char* ending, long n, int action, int error, int lasting) {
    pthread_mutex_lock(&mutex);
    fault.function = function;
    snprintf(fault.ending, sizeof fault.ending, "%s", ending);
    fault.left = n;
    fault.action = action;
    fault.error = error;
    fault.lasting = lasting;
    fault.fired = 0;
    pthread_mutex_unlock(&mutex);
}

long shim_count(int function) { return counts[function]; }
long shim_fired(void) { return fault.fired; }

static int within(const char* path) {
    return strncmp(path, folder, folder_length) == 0 &&
           (path[folder_length] == '/' || path[folder_length] == 0);
}

/* The path of what is watched; 0: not watched, ORACLE: it is the oracle. */
static int path_of(int fd, char* path) {
    char link[32];
    if (!watching || fd < 0 || fd == log_file) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    if (strcmp(path, oracle) == 0) return ORACLE;
    return within(path);
}

static uint64_t inode_of(int fd) {
    struct stat status;
    return fstat(fd, &status) == 0 ? status.st_ino : 0;
}

static void record(int function, uint64_t inode, int64_t offset, const char* path, const void* data,
                   size_t length) {
    if (log_file < 0) return;
    Record head = {(uint32_t)function, (uint32_t)strlen(path), inode, offset, length};
    struct iovec parts[3] = {
        {&head, sizeof head}, {(void*)path, head.path_length}, {(void*)data, length}};
    ssize_t wanted = (ssize_t)(sizeof head + head.path_length + length);
    if (syscall(SYS_writev, log_file, parts, 3) != wanted) abort();
}

/* Counts a call, and says what is to become of it. */
static int fate(int function, const char* path) {
    ++counts[function];
    if (fault.action == NONE || (fault.function != function && fault.function != FUNCTIONS))
        return NONE;
    size_t ending = strlen(fault.ending), length = strlen(path);
    if (ending > length || strcmp(path + length - ending, fault.ending) != 0) return NONE;
    --fault.left;
    if (fault.left > 0 || (fault.left < 0 && !fault.lasting)) return NONE;
    ++fault.fired;
    if (fault.action == KILL || (fault.action == TEAR && function != WRITE && function != PWRITE))
        kill(getpid(), SIGKILL);
    return fault.action;
}

static ssize_t written(int function, int fd, const void* data, size_t length, int64_t offset) {
    if (function == WRITE) return syscall(SYS_write, fd, data, length);
    return syscall(SYS_pwrite64, fd, data, length, offset);
}

static ssize_t watched_write(int function, int fd, const void* data, size_t length,
                             int64_t offset) {
    char path[PATH_MAX];
    int watched = path_of(fd, path);
    if (!watched) return written(function, fd, data, length, offset);
    pthread_mutex_lock(&mutex);
    ssize_t result = -1;
    int action = watched == ORACLE ? NONE : fate(function, path), error = fault.error;
    if (action != ERROR) {
        if (action != NONE) length = (length + 1) / 2;
        if (function == WRITE) {
            struct stat status;
            int appending = fcntl(fd, F_GETFL) & O_APPEND;
            offset = appending && fstat(fd, &status) == 0 ? status.st_size : lseek(fd, 0, SEEK_CUR);
        }
        result = written(function, fd, data, length, offset);
        error = errno;
        if (action == TEAR) kill(getpid(), SIGKILL);
        if (result > 0)
            record(watched == ORACLE ? ORACLE : function, inode_of(fd), offset, path, data,
                   (size_t)result);
    }
    pthread_mutex_unlock(&mutex);
    errno = error;
    return result;
}

ssize_t write(int fd, const void* data, size_t length) {
    return watched_write(WRITE, fd, data, length, 0);
}
ssize_t pwrite(int fd, const void* data, size_t length, off_t offset) {
    return watched_write(PWRITE, fd, data, length, offset);
}
ssize_t pwrite64(int fd, const void* data, size_t length, off64_t offset) {
    return watched_write(PWRITE, fd, data, length, offset);
}

static int changed(int function, int fd, int64_t size) {
    if (function == FTRUNCATE) return (int)syscall(SYS_ftruncate, fd, size);
    return (int)syscall(function == FSYNC ? SYS_fsync : SYS_fdatasync, fd);
}

static int watched_change(int function, int fd, int64_t size) {
    char path[PATH_MAX];
    int watched = path_of(fd, path);
    if (watched != 1) return changed(function, fd, size);
    pthread_mutex_lock(&mutex);
    int result = -1, error = fault.error;
    int action = fate(function, path);
    if (action == NONE || action == SHORT) {
        result = changed(function, fd, size);
        error = errno;
        if (result == 0) record(function, inode_of(fd), size, path, NULL, 0);
    } else if (function != FTRUNCATE) {
        record(function, inode_of(fd), -1, path, NULL, 0);
    }
    pthread_mutex_unlock(&mutex);
    errno = error;
    return result;
}

int ftruncate(int fd, off_t size) { return watched_change(FTRUNCATE, fd, size); }
int ftruncate64(int fd, off64_t size) { return watched_change(FTRUNCATE, fd, size); }
int fdatasync(int fd) { return watched_change(FDATASYNC, fd, 0); }
int fsync(int fd) { return watched_change(FSYNC, fd, 0); }

int rename(const char* from, const char* to) {
    int watched = watching && (within(from) || within(to)), result = -1, error = fault.error;
    if (!watched) return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    pthread_mutex_lock(&mutex);
    int action = fate(RENAME, to);
    if (action == NONE || action == SHORT) {
        result = (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
        error = errno;
        if (result == 0) record(RENAME, 0, 0, from, to, strlen(to));
    }
    pthread_mutex_unlock(&mutex);
    errno = error;
    return result;
}

int unlink(const char* path) {
    int result = -1, error = fault.error;
    if (!watching || !within(path)) return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    pthread_mutex_lock(&mutex);
    int action = fate(UNLINK, path);
    if (action == NONE || action == SHORT) {
        result = (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
        error = errno;
        if (result == 0) record(UNLINK, 0, 0, path, NULL, 0);
    }
    pthread_mutex_unlock(&mutex);
    errno = error;
    return result;
}

/* Only what creates a file or empties one is counted. */
static int watched_open(const char* path, int flags, mode_t mode) {
    struct stat status;
    int watched = watching && (flags & (O_CREAT | O_TRUNC)) && within(path);
    if (!watched) return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    pthread_mutex_lock(&mutex);
    int is_new = lstat(path, &status) != 0, emptied = !is_new && (flags & O_TRUNC);
    int result = -1, error = fault.error;
    int action = is_new || emptied ? fate(CREATE, path) : NONE;
    if (action == NONE || action == SHORT) {
        result = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
        error = errno;
        if (result >= 0 && is_new) record(CREATE, inode_of(result), 0, path, NULL, 0);
        if (result >= 0 && emptied) record(FTRUNCATE, inode_of(result), 0, path, NULL, 0);
    }
    pthread_mutex_unlock(&mutex);
    errno = error;
    return result;
}

static mode_t mode_of(int flags, va_list rest) {
    return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(rest, mode_t) : 0;
}

#define OPEN(name)                               \
    int name(const char* path, int flags, ...) { \
        va_list rest;                            \
        va_start(rest, flags);                   \
        mode_t mode = mode_of(flags, rest);      \
        va_end(rest);                            \
        return watched_open(path, flags, mode);  \
    }
OPEN(open)
OPEN(open64)
