// rlimits.c: what one process may use. Runs in the cell, on its only thread.
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

#define DATA_STEP (256ull << 10) // how exactly the data in use is found
#define DATA_FIRST (64ull << 20) // a parked Python or Node 22 has less
#define DATA_LAST (1ull << 47)   // no address space is larger

// Straight to the kernel: the one call that both filters know.
static int limit_set(int resource, uint64_t soft, uint64_t hard) {
  const uint64_t limits[2] = {soft, hard};
  return syscall(SYS_prlimit64, 0, resource, limits, NULL) < 0 ? -errno : 0;
}

static int limit_get(int resource, uint64_t limits[2]) {
  return syscall(SYS_prlimit64, 0, resource, NULL, limits) < 0 ? -errno : 0;
}

// Lowers soft and hard limit; a hard limit that is lower already stays.
static int limit_lower(int resource, uint64_t value) {
  uint64_t now[2];
  int result = limit_get(resource, now);
  if (result < 0)
    return result;
  if (now[1] < value)
    value = now[1];
  return limit_set(resource, value, value);
}

int cell_rlimits_enter(const struct cell_plan *plan, struct cell_error *error) {
  const bool scratch = cell_wants(plan, CELL_MOUNT_NAMESPACE) || plan->scratch[0];
  // Where a uid is shared with processes outside, the kernel would count those.
  const bool counts_alone = cell_has_own_user_namespace(plan) || cell_wants(plan, CELL_SEPARATE_UID);
  const struct {
    bool applies;
    int resource;
    uint64_t value;
    const char *name;
  } limits[] = {
    {true, RLIMIT_NOFILE, CELL_DESCRIPTORS_MAX, "NOFILE"}, // also bounds pipe and socket buffers
    {true, RLIMIT_CORE, 0, "CORE"},
    {true, RLIMIT_MSGQUEUE, 0, "MSGQUEUE"},
    {true, RLIMIT_MEMLOCK, 0, "MEMLOCK"},
    {true, RLIMIT_SIGPENDING, 128, "SIGPENDING"}, // each POSIX timer holds one: kernel memory
    {true, RLIMIT_RTPRIO, 0, "RTPRIO"},
    {true, RLIMIT_NICE, 0, "NICE"},
    {scratch, RLIMIT_FSIZE, plan->tmpfs_bytes, "FSIZE"}, // ends a sparse file early
    {counts_alone, RLIMIT_NPROC, CELL_THREADS_MAX, "NPROC"},
  };
  // All of them, whatever one says: some are not to be had under gVisor.
  int first = 0;
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    int result = limits[i].applies ? limit_lower(limits[i].resource, limits[i].value) : 0;
    if (result < 0 && first == 0)
      first = cell_fail(error, result, "rlimits", "%s: %s", limits[i].name, strerror(-result));
  }
  return first;
}

static void *map_page(void) {
  return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

// Whether one more page of data is given under a soft limit of bytes. Never ask
// with 0: the kernel takes that for a program of old and looks at the hard limit.
static bool data_fits(uint64_t bytes, uint64_t hard) {
  if (limit_set(RLIMIT_DATA, bytes < hard ? bytes : hard, hard) < 0)
    return false;
  void *page = map_page();
  if (page == MAP_FAILED)
    return false;
  munmap(page, 4096);
  return true;
}

// How much data the kernel counts for this process, rounded up. Asked of the
// limit itself, by doubling and halving, because a cell has no /proc
// everywhere; what answers is the very check that will hold the limit.
static int data_in_use(uint64_t hard, uint64_t *bytes) {
  uint64_t high = DATA_FIRST, low;
  while (high < DATA_LAST && !data_fits(high, hard))
    high *= 2;
  if (!data_fits(high, hard))
    return -ENOMEM;
  for (low = high > DATA_FIRST ? high / 2 : DATA_STEP; low < high;) {
    uint64_t middle = (low + high) / 2 / DATA_STEP * DATA_STEP;
    if (data_fits(middle, hard))
      high = middle;
    else
      low = middle + DATA_STEP;
  }
  *bytes = high;
  return 0;
}

// As found while the cell was made. Written and read by the cell's only thread.
static uint64_t parked_data;

// The same once a job has arrived, when time counts: what was parked, and a
// step or a few for the job itself.
static int data_in_use_now(uint64_t hard, uint64_t *bytes) {
  if (parked_data == 0)
    return data_in_use(hard, bytes);
  uint64_t grown = 0;
  while (!data_fits(parked_data + grown, hard)) {
    if (grown > DATA_LAST)
      return -ENOMEM;
    grown = grown ? grown * 2 : DATA_STEP;
  }
  *bytes = parked_data + grown;
  return 0;
}

static unsigned core_count(void) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  int count = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 0;
  return count > 0 ? (unsigned)count : 64; // more cores than cpu_set_t holds, or none seen
}

// The clock outside ends a run; this ends one that the clock lost. Whole
// seconds, over all threads, and one more for what came before the job.
static int limit_cpu(uint32_t timeout_ms) {
  return limit_lower(RLIMIT_CPU, ((uint64_t)timeout_ms * core_count() + 999) / 1000 + 1);
}

// Of the address space, in bytes; 0 where /proc does not say.
static uint64_t address_space(void) {
  char text[128];
  return cell_read_file("/proc/self/statm", text, sizeof text) > 0
           ? strtoull(text, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE)
           : 0;
}

void cell_rlimits_try(const struct cell_plan *plan, uint64_t memory_bytes, uint32_t timeout_ms) {
  limit_cpu(timeout_ms);
  // Python maps what it uses, so that a limit on the address space is one on
  // memory, and gives a MemoryError. Node reserves many times what it uses:
  // there the watch outside has to do.
  uint64_t used = plan->language == 1 ? address_space() : 0;
  if (used > 0)
    limit_lower(RLIMIT_AS, used + memory_bytes);
}

int cell_rlimits_close(uint64_t memory_bytes, uint32_t timeout_ms, struct cell_error *error) {
  uint64_t now[2], used = 0;
  int result = limit_get(RLIMIT_DATA, now);
  if (result == 0)
    result = data_in_use_now(now[1], &used);
  if (result == 0) {
    uint64_t most = used + memory_bytes < now[1] ? used + memory_bytes : now[1];
    result = limit_set(RLIMIT_DATA, most, most);
  }
  if (result < 0)
    return cell_fail(error, result, "rlimits", "DATA: %s", strerror(-result));

  result = limit_cpu(timeout_ms);
  return result < 0 ? cell_fail(error, result, "rlimits", "CPU: %s", strerror(-result)) : 0;
}

bool cell_rlimits_hold(void) {
  uint64_t now[2];
  if (limit_get(RLIMIT_DATA, now) < 0)
    return false;
  bool refused = !data_fits(4096, now[1]) && errno == ENOMEM;
  if (data_in_use(now[1], &parked_data) < 0)
    refused = false;
  bool restored = limit_set(RLIMIT_DATA, now[0], now[1]) == 0;
  bool given = restored && data_fits(now[0], now[1]); // the control
  // dup2 to the first number over the limit.
  bool bounded = dup2(0, CELL_DESCRIPTORS_MAX) < 0 && errno == EBADF;
  return refused && restored && given && bounded;
}
