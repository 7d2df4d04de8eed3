/* Records what a process does to the files below one directory, in the order in which it happens: to be preloaded
 * (LD_PRELOAD). Each call is carried out and its record appended while one lock is held, so that the record has the
 * order of what it tells. The record is binary, see `tests/power/recorder.py`.
 *
 *   SMQPD_RECORD_ROOT   the directory; an absolute path without links
 *   SMQPD_RECORD_FILE   where the record goes, outside of it
 *
 * Syncs are recorded and not carried out: nothing here has to survive the machine.
 * What is written through a mapping is not seen: SQLite maps its shared memory only, which it never trusts after a
 * crash. Calls that would copy between files inside the kernel are refused, so that their callers read and write. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

struct header {
    uint64_t inode;
    uint64_t offset;
    uint32_t first_bytes;
    uint32_t second_bytes;
    uint32_t kind;
    uint32_t unused;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX];
static size_t root_bytes;
static int record = -1;
static int paused;

__attribute__((constructor)) static void begin(void)
{
    const char *directory = getenv("SMQPD_RECORD_ROOT"), *file = getenv("SMQPD_RECORD_FILE");
    if (directory == NULL || file == NULL || strlen(directory) >= sizeof root - 1)
        return;
    root_bytes = (size_t)sprintf(root, "%s/", directory);
    record = (int)syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void tell(char kind, uint64_t inode, uint64_t offset, const void *first, size_t first_bytes, const void *second,
                 size_t second_bytes)
{
    struct header header = {inode, offset, (uint32_t)first_bytes, (uint32_t)second_bytes, (uint32_t)kind, 0};
    struct iovec parts[3] = {
        {&header, sizeof header}, {(void *)first, first_bytes}, {(void *)second, second_bytes}};
    if (record < 0 || paused)
        return;
    ssize_t all = (ssize_t)(sizeof header + first_bytes + second_bytes);
    if (syscall(SYS_writev, record, parts, 3) != all) {
        static const char text[] = "the recorder cannot write\n";
        syscall(SYS_write, 2, text, sizeof text - 1);
        abort();
    }
}

static int is_below(const char *path)
{
    return root_bytes && (strncmp(path, root, root_bytes) == 0 || (strncmp(path, root, root_bytes - 1) == 0 &&
                                                                   path[root_bytes - 1] == '\0'));
}

/* The path of an open file, without a trailing " (deleted)" being looked at: only whether it is below the root. */
static int path_of(int descriptor, char *out)
{
    char link[64];
    sprintf(link, "/proc/self/fd/%d", descriptor);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, out, PATH_MAX - 1);
    if (length <= 0)
        return 0;
    out[length] = '\0';
    return is_below(out);
}

/* A path as an argument: absolute. */
static int resolved(int directory, const char *path, char *out)
{
    char base[PATH_MAX];
    if (record < 0)
        return 0;
    if (path[0] == '/') {
        if (strlen(path) >= PATH_MAX)
            return 0;
        strcpy(out, path);
    } else {
        if (directory == AT_FDCWD) {
            if (syscall(SYS_getcwd, base, sizeof base) <= 0)
                return 0;
        } else {
            char link[64];
            sprintf(link, "/proc/self/fd/%d", directory);
            ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, base, PATH_MAX - 1);
            if (length <= 0)
                return 0;
            base[length] = '\0';
        }
        if (strlen(base) + strlen(path) + 2 >= PATH_MAX)
            return 0;
        sprintf(out, "%s/%s", base, path);
    }
    return is_below(out);
}

static uint64_t inode_of(int descriptor)
{
    struct stat status;
    return fstat(descriptor, &status) == 0 ? (uint64_t)status.st_ino : 0;
}

static int is_regular(int descriptor)
{
    struct stat status;
    return fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

/* -- for the tests: marks among the records, and pauses ------------------------------------------------------------ */

void recorder_mark(uint64_t number)
{
    pthread_mutex_lock(&lock);
    tell('K', 0, number, NULL, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
}

void recorder_pause(int whether)
{
    pthread_mutex_lock(&lock);
    paused = whether;
    pthread_mutex_unlock(&lock);
}

/* -- what is preloaded --------------------------------------------------------------------------------------------- */

static int opened(int directory, const char *path, int flags, mode_t mode)
{
    char where[PATH_MAX];
    if (record < 0 || !(flags & (O_CREAT | O_TRUNC)) || (flags & O_TMPFILE) == O_TMPFILE)
        return (int)syscall(SYS_openat, directory, path, flags, mode);
    pthread_mutex_lock(&lock);
    struct stat before;
    int was_there = fstatat(directory, path, &before, 0) == 0;
    int descriptor = (int)syscall(SYS_openat, directory, path, flags, mode);
    int error = errno;
    if (descriptor >= 0 && path_of(descriptor, where)) {
        if (!was_there)
            tell('C', inode_of(descriptor), mode, where, strlen(where), NULL, 0);
        else if ((flags & O_TRUNC) && before.st_size)
            tell('T', inode_of(descriptor), 0, NULL, 0, NULL, 0);
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return descriptor;
}

#define MODE(flags, last)                                                                                              \
    mode_t mode = 0;                                                                                                   \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                                                                             \
        va_list more;                                                                                                  \
        va_start(more, last);                                                                                          \
        mode = va_arg(more, mode_t);                                                                                   \
        va_end(more);                                                                                                  \
    }

int open(const char *path, int flags, ...)
{
    MODE(flags, flags)
    return opened(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    MODE(flags, flags)
    return opened(AT_FDCWD, path, flags | O_LARGEFILE, mode);
}

int openat(int directory, const char *path, int flags, ...)
{
    MODE(flags, flags)
    return opened(directory, path, flags, mode);
}

int openat64(int directory, const char *path, int flags, ...)
{
    MODE(flags, flags)
    return opened(directory, path, flags | O_LARGEFILE, mode);
}

int creat(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

static int concerns(int descriptor)
{
    char where[PATH_MAX];
    return record >= 0 && descriptor != record && path_of(descriptor, where) && is_regular(descriptor);
}

ssize_t write(int descriptor, const void *data, size_t bytes)
{
    if (!concerns(descriptor))
        return syscall(SYS_write, descriptor, data, bytes);
    pthread_mutex_lock(&lock);
    ssize_t written = syscall(SYS_write, descriptor, data, bytes);
    int error = errno;
    if (written > 0) {
        off_t end = syscall(SYS_lseek, descriptor, 0, SEEK_CUR);
        tell('W', inode_of(descriptor), (uint64_t)(end - written), data, (size_t)written, NULL, 0);
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return written;
}

ssize_t pwrite64(int descriptor, const void *data, size_t bytes, off64_t offset)
{
    if (!concerns(descriptor))
        return syscall(SYS_pwrite64, descriptor, data, bytes, offset);
    pthread_mutex_lock(&lock);
    ssize_t written = syscall(SYS_pwrite64, descriptor, data, bytes, offset);
    int error = errno;
    if (written > 0)
        tell('W', inode_of(descriptor), (uint64_t)offset, data, (size_t)written, NULL, 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return written;
}

ssize_t pwrite(int descriptor, const void *data, size_t bytes, off_t offset)
{
    return pwrite64(descriptor, data, bytes, offset);
}

ssize_t writev(int descriptor, const struct iovec *parts, int count)
{
    if (!concerns(descriptor))
        return syscall(SYS_writev, descriptor, parts, count);
    ssize_t all = 0;
    for (int i = 0; i < count; i++) {
        ssize_t written = write(descriptor, parts[i].iov_base, parts[i].iov_len);
        if (written < 0)
            return all ? all : written;
        all += written;
        if ((size_t)written < parts[i].iov_len)
            break;
    }
    return all;
}

int ftruncate64(int descriptor, off64_t size)
{
    if (!concerns(descriptor))
        return (int)syscall(SYS_ftruncate, descriptor, size);
    pthread_mutex_lock(&lock);
    int result = (int)syscall(SYS_ftruncate, descriptor, size);
    int error = errno;
    if (result == 0)
        tell('T', inode_of(descriptor), (uint64_t)size, NULL, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

int ftruncate(int descriptor, off_t size) { return ftruncate64(descriptor, size); }

int truncate64(const char *path, off64_t size)
{
    int descriptor = open(path, O_WRONLY | O_CLOEXEC);
    if (descriptor < 0)
        return -1;
    int result = ftruncate64(descriptor, size), error = errno;
    close(descriptor);
    errno = error;
    return result;
}

int truncate(const char *path, off_t size) { return truncate64(path, size); }

static int synced(int descriptor, long call)
{
    char where[PATH_MAX];
    if (record < 0 || !path_of(descriptor, where))
        return (int)syscall(call, descriptor);
    pthread_mutex_lock(&lock);
    tell('S', inode_of(descriptor), 0, NULL, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    return 0;
}

int fsync(int descriptor) { return synced(descriptor, SYS_fsync); }

int fdatasync(int descriptor) { return synced(descriptor, SYS_fdatasync); }

int renameat(int old_directory, const char *old, int new_directory, const char *new)
{
    char from[PATH_MAX], to[PATH_MAX];
    int below = resolved(old_directory, old, from) && resolved(new_directory, new, to);
    pthread_mutex_lock(&lock);
    int result = (int)syscall(SYS_renameat2, old_directory, old, new_directory, new, 0);
    int error = errno;
    if (result == 0 && below)
        tell('R', 0, 0, from, strlen(from), to, strlen(to));
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

int rename(const char *old, const char *new) { return renameat(AT_FDCWD, old, AT_FDCWD, new); }

int linkat(int old_directory, const char *old, int new_directory, const char *new, int flags)
{
    char from[PATH_MAX], to[PATH_MAX];
    int below = resolved(old_directory, old, from) && resolved(new_directory, new, to);
    pthread_mutex_lock(&lock);
    int result = (int)syscall(SYS_linkat, old_directory, old, new_directory, new, flags);
    int error = errno;
    if (result == 0 && below)
        tell('L', 0, 0, from, strlen(from), to, strlen(to));
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

int link(const char *old, const char *new) { return linkat(AT_FDCWD, old, AT_FDCWD, new, 0); }

int unlinkat(int directory, const char *path, int flags)
{
    char where[PATH_MAX];
    int below = resolved(directory, path, where);
    pthread_mutex_lock(&lock);
    int result = (int)syscall(SYS_unlinkat, directory, path, flags);
    int error = errno;
    if (result == 0 && below)
        tell('U', 0, 0, where, strlen(where), NULL, 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }

int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdirat(int directory, const char *path, mode_t mode)
{
    char where[PATH_MAX];
    int below = resolved(directory, path, where);
    pthread_mutex_lock(&lock);
    int result = (int)syscall(SYS_mkdirat, directory, path, mode);
    int error = errno;
    struct stat status;
    if (result == 0 && below && fstatat(directory, path, &status, 0) == 0)
        tell('M', (uint64_t)status.st_ino, mode, where, strlen(where), NULL, 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

static ssize_t refused(int descriptor, long call, long a, long b, long c, long d, long e)
{
    char where[PATH_MAX];
    if (record >= 0 && path_of(descriptor, where)) {
        errno = EINVAL;
        return -1;
    }
    return syscall(call, a, b, c, d, e, 0);
}

ssize_t sendfile64(int out, int in, off64_t *offset, size_t bytes)
{
    return refused(out, SYS_sendfile, out, in, (long)offset, (long)bytes, 0);
}

ssize_t sendfile(int out, int in, off_t *offset, size_t bytes) { return sendfile64(out, in, offset, bytes); }

ssize_t copy_file_range(int in, off64_t *in_offset, int out, off64_t *out_offset, size_t bytes, unsigned flags)
{
    (void)flags;
    return refused(out, SYS_copy_file_range, in, (long)in_offset, out, (long)out_offset, (long)bytes);
}
