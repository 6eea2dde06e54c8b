// keeper.c: the small static program between the host and one zygote. It builds
// the outer walls, then forks nothing more: it passes orders on, keeps every
// deadline, watches memory, and is the only one that kills.
//
//   engine --(fd 3)-- keeper --(socket)-- zygote -- cells
//                        \-- init (pid 1 of the zygote's pid namespace)
//
// The end of the engine's socket ends the keeper; the end of the keeper ends
// init (its lifeline closes); the end of init ends everything behind it.
//
// Two threads: main (orders, deadlines), and the memory watch, which only reads
// /proc and kills. See watch.h for what they share.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "birth.h"
#include "boot.h"
#include "report.h"
#include "scratch.h"
#include "strict.h"
#include "watch.h"

enum {
  BOOT_MS = 30000,  // the zygote must be ready by then
  FORKS_MAX = 32,   // cells being built at once
  SETUP_MS = 10000, // a cell must be parked by then, twice, or the zygote counts as stuck
  ASK_PART = 10,    // this part of its time before the deadline a cell is asked where it is,
  ASK_MS = 100,     // but at most so long before,
  ASK_LAST_MS = 2,  // and again whenever half of that has passed, while there is so much left
};

static int zygote = -1; // our end of the zygote's socket
static pid_t init_pid = -1;
static struct cell_plan plan = {.tmpfs_bytes = 64ull << 20, .tmpfs_inodes = 16384, .nice = 10};
static bool acceptable; // files, network and signals are kept apart
static struct closure closure;

static void tell(const struct report *report, const char *text, size_t bytes) {
  report_send(PROTOCOL_FD, report, text, bytes, NULL, 0);
}

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// Init's end takes all with it where there is a pid namespace; elsewhere each
// cell is killed by name, before the zygote's end frees their pids.
_Noreturn static void end_all(int code) {
  for (size_t i = 0; i < watch_count; i++)
    watch_kill(&watch_cells[i], VERDICT_LOST);
  if (init_pid > 0) {
    kill(init_pid, SIGKILL);
    waitpid(init_pid, NULL, 0);
  }
  cell_cgroup_close();
  scratch_close();
  _exit(code);
}

// The boot has failed, or the zygote has: say why, and end.
_Noreturn static void fail(const struct cell_error *error) {
  report_failure(PROTOCOL_FD, 0, error);
  end_all(1);
}

// ---- orders from the engine ----

// An order that is lost would be waited for: without it there is no going on. The
// zygote's own end is told by its socket.
static void tell_zygote(const void *message, size_t bytes) {
  struct cell_error error = {0};
  ssize_t sent;
  do
    sent = send(zygote, message, bytes, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  if (sent >= 0 || errno == EPIPE || errno == ECONNRESET)
    return;
  cell_fail(&error, -errno, "zygote", "an order cannot be sent to it: %s", strerror(errno));
  fail(&error);
}

static void order_zygote(uint32_t type, uint32_t id) {
  struct order order = {.type = type, .cell = id};
  tell_zygote(&order, sizeof order);
}

// No more forks at once than both sockets hold for certain: neither side may
// ever wait for the other's reading. Lock held.
static void order_forks(void) {
  size_t under_way = 0;
  for (size_t i = 0; i < watch_count; i++)
    under_way += watch_cells[i].ordered && !watch_cells[i].parked;
  for (size_t i = 0; i < watch_count && under_way < FORKS_MAX; i++) {
    struct watched *cell = &watch_cells[i];
    if (cell->ordered)
      continue;
    cell->ordered = true;
    cell->due_ns = now_ns() + SETUP_MS * 1000000ull;
    order_zygote(ORDER_FORK, cell->id);
    under_way++;
  }
}

static void on_fork(const struct order *order) {
  struct cell_error error = {0};
  struct watched *cell = watch_add(order->cell);
  int result = cell ? scratch_make(order->cell, &plan) : -EAGAIN;
  if (result < 0) {
    cell_fail(&error, result, "fork", cell ? "no folder for the cell" : "more cells than one zygote can have");
    report_failure(PROTOCOL_FD, order->cell, &error);
    if (cell)
      watch_forget(cell);
    return;
  }
  order_forks();
}

static void on_arm(const struct order *order) {
  struct watched *cell = watch_find(order->cell);
  if (!cell || !cell->parked)
    return; // it has ended meanwhile, and GONE is on its way
  uint64_t time_ns = order->deadline_us * 1000u, ask_ns = time_ns / ASK_PART;
  cell->due_ns = now_ns() + time_ns;
  cell->ask_ns = cell->due_ns - (ask_ns < ASK_MS * 1000000ull ? ask_ns : ASK_MS * 1000000ull);
  watch_arm(cell, order->memory_bytes);
}

static void on_order(void) {
  struct order order;
  ssize_t size = recv(PROTOCOL_FD, &order, sizeof order, MSG_DONTWAIT);
  if (size < 0)
    return; // nothing, or not now: it is still there
  if (size != sizeof order)
    end_all(0); // the host has gone
  pthread_mutex_lock(&watch_lock);
  struct watched *cell = watch_find(order.cell);
  if (order.type == ORDER_FORK)
    on_fork(&order);
  else if (order.type == ORDER_ARM)
    on_arm(&order);
  else if (order.type == ORDER_KILL && cell)
    watch_kill(cell, VERDICT_ASKED);
  pthread_mutex_unlock(&watch_lock);
}

// ---- reports from the zygote and from cells that park ----

static void on_parked(struct delivery *in) {
  struct watched *cell = watch_find(in->report.cell);
  if (!cell || cell->parked || in->fd_count < 1 || in->sender <= 0) {
    report_drop(in);
    return;
  }
  cell->pid = in->report.pid = in->sender;
  cell->tmpfs[0] = in->fd_count > 1 ? in->fds[1] : -1;
  cell->tmpfs[1] = in->fd_count > 2 ? in->fds[2] : -1;
  watch_park(cell, &in->report);
  int fds[2] = {in->fds[0], cell->pidfd};
  report_send(PROTOCOL_FD, &in->report, NULL, 0, fds, cell->pidfd >= 0 ? 2 : 1);
  close(in->fds[0]);
  if (cell->verdict)
    watch_kill(cell, cell->verdict); // ordered while it was still being built
}

static void on_gone(struct delivery *in) {
  struct watched *cell = watch_find(in->report.cell);
  in->report.verdict = VERDICT_NONE;
  if (cell)
    watch_gone(cell, &in->report);
  tell(&in->report, NULL, 0);
  order_zygote(ORDER_REAP, in->report.cell);
}

// A cell that could not be built ends by itself: GONE follows, unless there was no fork.
static void on_failed(struct delivery *in) {
  if (in->report.cell == 0) {
    tell(&in->report, in->text, in->text_bytes);
    end_all(1);
  }
  struct watched *cell = watch_find(in->report.cell);
  if (cell)
    watch_forget(cell);
  tell(&in->report, in->text, in->text_bytes);
}

_Noreturn static void on_zygote_end(void) {
  struct cell_error error = {0};
  for (size_t i = 0; i < watch_count; i++) {
    struct report report = {
      .type = REPORT_GONE, .cell = watch_cells[i].id, .verdict = VERDICT_LOST, .wait_status = SIGKILL};
    tell(&report, NULL, 0);
  }
  cell_fail(&error, -EPIPE, "zygote", "the runtime's zygote has ended");
  fail(&error);
}

static void on_report(void) {
  static struct delivery in;
  int got = report_receive(zygote, &in);
  if (got == 0)
    on_zygote_end();
  if (got < 0)
    return;
  pthread_mutex_lock(&watch_lock);
  if (in.report.type == REPORT_PARKED)
    on_parked(&in);
  else if (in.report.type == REPORT_GONE)
    on_gone(&in);
  else if (in.report.type == REPORT_FAILED)
    on_failed(&in);
  order_forks();
  pthread_mutex_unlock(&watch_lock);
}

// ---- time ----

// Kills what is over its time; returns the nanoseconds until the next is, -1 for none.
static int64_t keep_time(void) {
  uint64_t now = now_ns(), next = UINT64_MAX;
  pthread_mutex_lock(&watch_lock);
  for (size_t i = 0; i < watch_count; i++) {
    struct watched *cell = &watch_cells[i];
    if (!cell->due_ns)
      continue;
    if (cell->armed && cell->ask_ns && cell->ask_ns <= now) {
      watch_ask(cell);
      cell->ask_ns = cell->due_ns > now + ASK_LAST_MS * 1000000ull ? now + (cell->due_ns - now) / 2 : 0;
    }
    if (cell->due_ns <= now && cell->armed) {
      watch_kill(cell, VERDICT_DEADLINE);
      cell->due_ns = 0;
    } else if (cell->due_ns <= now) {
      // Perhaps we were all stopped for a while: one more chance.
      if (cell->strikes++)
        on_zygote_end();
      cell->due_ns = now + SETUP_MS * 1000000ull;
    }
    uint64_t at = cell->ask_ns ? cell->ask_ns : cell->due_ns;
    if (at && at < next)
      next = at;
  }
  pthread_mutex_unlock(&watch_lock);
  return next == UINT64_MAX ? -1 : (int64_t)(next - now);
}

_Noreturn static void serve(void) {
  for (;;) {
    int64_t left = keep_time();
    struct timespec wait = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
    struct pollfd source[2] = {{.fd = PROTOCOL_FD, .events = POLLIN}, {.fd = zygote, .events = POLLIN}};
    if (ppoll(source, 2, left < 0 ? NULL : &wait, NULL) <= 0)
      continue;
    if (source[0].revents)
      on_order();
    if (source[1].revents)
      on_report();
  }
}

// ---- boot ----

static void receive_boot(struct boot *boot) {
  static char message[PROTOCOL_MESSAGE_MAX + 1];
  struct cell_error error = {0};
  ssize_t size;
  do
    size = recv(PROTOCOL_FD, message, PROTOCOL_MESSAGE_MAX, 0);
  while (size < 0 && errno == EINTR);
  if (size <= 0)
    _exit(0);
  struct order order;
  memcpy(&order, message, sizeof order);
  if ((size_t)size > sizeof order && order.type == ORDER_BOOT)
    boot_parse(message + sizeof order, (size_t)size - sizeof order, boot);
  if (!boot->language || !boot->runtime || !boot->guest_dir || !boot->guest_lib) {
    cell_fail(&error, -EPROTO, "boot", "the engine sent no complete BOOT order");
    fail(&error);
  }
}

// Passes READY on with what the keeper knows, or the reason why there is none.
static void await_ready(const struct boot *boot) {
  static struct delivery in;
  struct cell_error error = {0};
  uint64_t due = now_ns() + BOOT_MS * 1000000ull;
  for (;;) {
    struct pollfd source[2] = {{.fd = PROTOCOL_FD, .events = POLLIN}, {.fd = zygote, .events = POLLIN}};
    int64_t left = (int64_t)(due - now_ns()) / 1000000;
    if (left <= 0 || poll(source, 2, (int)left) == 0) {
      cell_fail(&error, -ETIMEDOUT, "boot", "%s was not ready within %d s", closure.argv[0], BOOT_MS / 1000);
      fail(&error);
    }
    if (source[0].revents & (POLLHUP | POLLERR))
      end_all(0);
    int got = source[1].revents ? report_receive(zygote, &in) : -1;
    if (got < 0)
      continue;
    if (got == 0) {
      int status = 0;
      waitpid(init_pid, &status, 0); // init ends as the zygote has
      if (!boot_barred(boot, &error))
        cell_fail(&error, -EPIPE, "boot", "%s ended before it was ready, with exit code %d (%s)", closure.argv[0],
                  WEXITSTATUS(status), closure.runtime);
      init_pid = -1;
      fail(&error);
    }
    if (in.report.type == REPORT_FAILED)
      on_failed(&in);
    if (in.report.type == REPORT_READY)
      break;
  }
  size_t size = in.text_bytes;
  for (int i = 0; i < CELL_LAYER_COUNT && size < sizeof in.text - 256; i++)
    if (!(plan.want & CELL_BIT(i)))
      size +=
        (size_t)snprintf(in.text + size, sizeof in.text - size, "missing=%s:%s", cell_layer_name(i), plan.reason[i]) +
        1;
  static const char weak[] = "isolation=unverified";
  if (!acceptable && size + sizeof weak <= sizeof in.text) {
    memcpy(in.text + size, weak, sizeof weak);
    size += sizeof weak;
  }
  in.report.layers = plan.want;
  tell(&in.report, in.text, size);
}

static void send_plan(void) {
  struct {
    struct order order;
    struct cell_plan plan;
  } message = {{.type = ORDER_PLAN}, plan};
  tell_zygote(&message, sizeof message);
}

static void start_zygote(void) {
  struct cell_error error = {0};
  int pair[2], lifeline[2], on = 1;
  // Without the senders' pids no cell could be told from another.
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) || pipe2(lifeline, O_CLOEXEC) ||
      setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on)) {
    cell_fail(&error, -errno, "boot", "no descriptors for the zygote: %s", strerror(errno));
    fail(&error);
  }
  struct birth birth = {lifeline[0], pair[1], plan.cold, &closure};
  zygote = pair[0];
  if (cell_outer_spawn(&plan, &closure.root, birth_init, &birth, &init_pid, &error))
    fail(&error);
  close(pair[1]);
  close(lifeline[0]);
}

int main(int count, char **arguments) {
  struct cell_error error = {0};
  struct boot boot = {.memory_cap_mb = 4096};
  int result = boot_settle(PROTOCOL_FD);
  if (result) {
    cell_fail(&error, result, "boot", "the keeper's socket and folder: %s", strerror(-result));
    fail(&error);
  }
  boot_raise_descriptors();
  receive_boot(&boot);
  if (count > 1 && !strcmp(arguments[1], "--strict") && strict_check(&boot, &error))
    fail(&error);
  plan.language = !strcmp(boot.language, "python");
  plan.cold = boot.start && !strcmp(boot.start, "cold");
  plan.outside_pid = (int32_t)getpid();
  if (cell_plan_probe(&plan, &error))
    fail(&error);
  acceptable = cell_plan_acceptable(&plan, &error) == 0;
  if (!acceptable && !boot.allow_weak) {
    snprintf(error.stage, sizeof error.stage, "isolation"); // the engine knows it by this word
    fail(&error);
  }
  if (closure_resolve(&boot, &plan, &closure, &error))
    fail(&error);
  scratch_open(&plan);
  start_zygote();
  scratch_owner(init_pid, &plan);
  send_plan();
  await_ready(&boot);
  if (watch_start(&plan) || scratch_start()) {
    cell_fail(&error, -EAGAIN, "boot", "the memory watch has no thread");
    fail(&error);
  }
  serve();
}
