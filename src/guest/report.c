// report.c: see report.h. No state; any thread.
#include "report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

int report_send(int to, const struct report *report, const char *text, size_t bytes, const int *fds, size_t fd_count) {
  char control[CMSG_SPACE(REPORT_FDS_MAX * sizeof(int))] = {0};
  struct iovec parts[2] = {{(void *)report, sizeof *report}, {(void *)text, bytes}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = bytes ? 2 : 1};
  if (fd_count > REPORT_FDS_MAX)
    return -EINVAL;
  if (fd_count) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
    memcpy(CMSG_DATA(head), fds, fd_count * sizeof(int));
  }
  ssize_t sent;
  do
    sent = sendmsg(to, &message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent < 0 ? -errno : 0;
}

void report_failure(int to, uint32_t cell, const struct cell_error *error) {
  char text[sizeof error->stage + sizeof error->cause + 8];
  int size = snprintf(text, sizeof text, "%s: %s", error->stage, error->cause);
  struct report report = {.type = REPORT_FAILED, .cell = cell};
  report_send(to, &report, text, (size_t)size, NULL, 0);
}

void report_drop(struct delivery *in) {
  while (in->fd_count)
    close(in->fds[--in->fd_count]);
}

// Padding lets the kernel deliver more of them than there are places.
static void take_fds(const struct cmsghdr *head, struct delivery *in) {
  size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (size_t i = 0; i < count; i++) {
    int fd;
    memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
    if (in->fd_count < REPORT_FDS_MAX)
      in->fds[in->fd_count++] = fd;
    else
      close(fd);
  }
}

int report_receive(int from, struct delivery *in) {
  _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof in->fds)];
  struct iovec parts[2] = {{&in->report, sizeof in->report}, {in->text, sizeof in->text - 1}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2, .msg_control = control, .msg_controllen = sizeof control};
  ssize_t size = recvmsg(from, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0)
    // Also ECONNRESET, which comes once, before the last words of a sender that
    // had orders unread.
    return -1;
  in->fd_count = 0;
  in->sender = 0;
  for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_type == SCM_RIGHTS) {
      take_fds(head, in);
    } else if (head->cmsg_type == SCM_CREDENTIALS) {
      struct ucred who;
      memcpy(&who, CMSG_DATA(head), sizeof who);
      in->sender = who.pid; // translated to our pid namespace by the kernel
    }
  }
  if (size < (ssize_t)sizeof in->report) {
    report_drop(in);
    return size == 0 ? 0 : -1;
  }
  if (in->report.type != REPORT_PARKED)
    report_drop(in); // none other has any
  in->text_bytes = (size_t)size - sizeof in->report;
  in->text[in->text_bytes] = 0;
  return 1;
}
