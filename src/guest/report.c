// report.c: see report.h. No state; any thread.
#include "report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

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
