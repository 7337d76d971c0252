/* Stands between a node and the C library; `page.py` says what the page holds, and is its only writer but for the counters at its end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define PATH_BYTES 96
#define POISONED_MAX 1024
#define MILLION 1000000

struct clock_change { int64_t offset_ns, anchor_ns, rate_ppm; }; /* What is added: offset, and rate_ppm of the time since the anchor. */

struct page {
    _Atomic uint64_t version; /* Odd while it is being written. */
    struct clock_change wall, monotonic;
    int64_t sync_delay_ns, sync_errno;
    char delayed_path[PATH_BYTES], failing_path[PATH_BYTES];
    _Atomic int64_t wall_answers, wall_skew_ns, monotonic_answers, monotonic_skew_ns, syncs_delayed, syncs_failed, syncs_believed;
};

static struct page *page;
static int (*real_gettime)(clockid_t, struct timespec *);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_epoll_wait)(int, struct epoll_event *, int, int);
static _Atomic uint64_t poisoned[POISONED_MAX];
static _Atomic int poisoned_count;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("KRAFT_JEPSEN_PAGE");
    int descriptor = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (descriptor < 0)
        return;
    void *found = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (found != MAP_FAILED)
        page = found;
}

static int64_t gettime(clockid_t which) {
    struct timespec at;
    if (!real_gettime)
        real_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    real_gettime(which, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

static struct clock_change read_change(const volatile struct clock_change *source) {
    struct clock_change found;
    uint64_t version;
    do {
        version = atomic_load(&page->version);
        found.offset_ns = source->offset_ns;
        found.anchor_ns = source->anchor_ns;
        found.rate_ppm = source->rate_ppm;
        atomic_thread_fence(memory_order_seq_cst);
    } while ((version & 1) || version != atomic_load(&page->version));
    return found;
}

static int64_t skew(const struct clock_change *source, _Atomic int64_t *answers, _Atomic int64_t *last) {
    struct clock_change change = read_change(source);
    int64_t added = change.offset_ns;
    if (change.rate_ppm)
        added += (int64_t)((__int128)(gettime(CLOCK_MONOTONIC) - change.anchor_ns) * change.rate_ppm / MILLION);
    if (added) {
        atomic_store(last, added);
        atomic_fetch_add(answers, 1);
    }
    return added;
}

static int64_t now(clockid_t which) {
    int64_t at = gettime(which);
    if (page && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE))
        at += skew(&page->wall, &page->wall_answers, &page->wall_skew_ns);
    else if (page && (which == CLOCK_MONOTONIC || which == CLOCK_MONOTONIC_COARSE || which == CLOCK_BOOTTIME))
        at += skew(&page->monotonic, &page->monotonic_answers, &page->monotonic_skew_ns);
    return at;
}

int clock_gettime(clockid_t which, struct timespec *at) {
    if (which != CLOCK_REALTIME && which != CLOCK_REALTIME_COARSE && which != CLOCK_MONOTONIC && which != CLOCK_MONOTONIC_COARSE && which != CLOCK_BOOTTIME) {
        gettime(CLOCK_MONOTONIC); /* Finds the real one. */
        return real_gettime(which, at);
    }
    int64_t found = now(which);
    at->tv_sec = found / 1000000000;
    at->tv_nsec = found % 1000000000;
    return 0;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    (void)zone;
    int64_t found = now(CLOCK_REALTIME);
    at->tv_sec = found / 1000000000;
    at->tv_usec = found % 1000000000 / 1000;
    return 0;
}

time_t time(time_t *at) {
    time_t found = now(CLOCK_REALTIME) / 1000000000;
    if (at)
        *at = found;
    return found;
}

int epoll_wait(int descriptor, struct epoll_event *events, int count, int timeout_ms) {
    if (!real_epoll_wait)
        real_epoll_wait = (int (*)(int, struct epoll_event *, int, int))dlsym(RTLD_NEXT, "epoll_wait");
    if (page && timeout_ms > 0) { /* Who waits for a time of its own clock wakes when that clock says so. */
        int64_t rate = read_change(&page->monotonic).rate_ppm;
        if (rate)
            timeout_ms = (int)((int64_t)timeout_ms * MILLION / (MILLION + rate));
    }
    return real_epoll_wait(descriptor, events, count, timeout_ms);
}

/* As Linux does: a failed sync is told once. From then on syncs of the same file succeed, and what was to be written is not. */
static int fails(int descriptor) {
    struct stat found;
    if (fstat(descriptor, &found) != 0)
        return 0;
    int count = atomic_load(&poisoned_count);
    for (int i = 0; i < count && i < POISONED_MAX; i++)
        if (atomic_load(&poisoned[i]) == found.st_ino) {
            atomic_fetch_add(&page->syncs_believed, 1);
            return 0;
        }
    int at = atomic_fetch_add(&poisoned_count, 1);
    if (at < POISONED_MAX)
        atomic_store(&poisoned[at], found.st_ino);
    atomic_fetch_add(&page->syncs_failed, 1);
    return 1;
}

static int sync_file(int descriptor, const char *name, int (**real)(int)) {
    if (!*real)
        *real = (int (*)(int))dlsym(RTLD_NEXT, name);
    if (page && (page->sync_delay_ns || page->sync_errno)) {
        char link[40], path[512];
        snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
        ssize_t length = readlink(link, path, sizeof path - 1);
        path[length < 0 ? 0 : length] = 0;
        int64_t delay = page->sync_delay_ns, error = page->sync_errno;
        if (delay && strstr(path, page->delayed_path)) {
            struct timespec rest = {delay / 1000000000, delay % 1000000000};
            atomic_fetch_add(&page->syncs_delayed, 1);
            nanosleep(&rest, NULL);
        }
        if (error && strstr(path, page->failing_path)) {
            if (!fails(descriptor))
                return 0;
            errno = (int)error;
            return -1;
        }
    }
    return (*real)(descriptor);
}

int fsync(int descriptor) { return sync_file(descriptor, "fsync", &real_fsync); }

int fdatasync(int descriptor) { return sync_file(descriptor, "fdatasync", &real_fdatasync); }
