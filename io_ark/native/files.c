/* Read many small files into one buffer. */
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ark.h"

#ifndef O_BINARY /* Windows would translate line ends without it, and has no O_CLOEXEC. */
#define O_BINARY 0
#endif
#ifndef O_CLOEXEC
#define O_CLOEXEC 0
#endif

/* Read the first `size` bytes of a file. Returns 1, or 0 if the file cannot be read or is shorter. */
static int read_start(const char *path, uint8_t *target, int64_t size)
{
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_BINARY);
    if (descriptor < 0) return 0;
    int64_t filled = 0, count = 1;
    while (count > 0 && filled < size) {
        count = read(descriptor, target + filled, (size_t)(size - filled));
        filled += count > 0 ? count : 0;
    }
    close(descriptor);
    return filled == size;
}

/* Return the name of a file after its key and a space. Return NULL if a byte of the name is not 1 in `plain`. */
static const char *find_name(const char *line, const uint8_t *plain)
{
    const char *const blank = strchr(line, ' ');
    if (!blank || blank == line || !blank[1] || blank[1] == '-') return NULL;
    for (const char *at = blank + 1; *at; at++)
        if (!plain[(uint8_t)*at]) return NULL;
    return blank + 1;
}

/* Read at most the first `max_bytes` bytes of each file. `lines` has a zero byte after each line, a key and a file name.
 *
 * Files are stored after the first `*end` of the `room` bytes of `target`. Each file starts `lead` bytes before a multiple of
 * `alignment`. Outputs: the start and end of each file, and the end of the last file. Returns the number of files before the
 * first file with another name, or that is not a regular file, is unreadable, has more than `largest` bytes, or does not fit.
 * Only regular files are opened, because opening a named pipe or a device can have side effects. */
EXPORT int64_t ark_read_files(const uint8_t *lines, int64_t count, const uint8_t *plain, int64_t max_bytes,
                              int64_t largest, int64_t lead, int64_t alignment, uint8_t *target, int64_t room,
                              int64_t *places, int64_t *end)
{
    for (int64_t i = 0; i < count; i++) {
        const char *const path = find_name((const char *)lines, plain);
        struct stat status;
        if (!path || stat(path, &status) || !S_ISREG(status.st_mode) || status.st_size > largest) return i;
        const int64_t size = status.st_size < max_bytes ? status.st_size : max_bytes;
        const int64_t at = (*end + lead + alignment - 1) / alignment * alignment - lead;
        if (size > room - at || !read_start(path, target + at, size)) return i;
        places[2 * i] = at;
        places[2 * i + 1] = *end = at + size;
        lines = (const uint8_t *)path + strlen(path) + 1;
    }
    return count;
}
