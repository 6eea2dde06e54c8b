// backend_http_connection.c: see backend_http.h. Which connections curl has open,
// and whether what was sent over one may be sent again.
//
// curl repeats a request by itself on every re-used connection that ends without
// an answer, and that would run code twice that killed its instance. on_request,
// which curl calls before it sends, therefore forbids the second sending unless
//  - the peer had closed before the request got there, as servers do with idle
//    connections at any moment: we saw its end (a FIN), and by that it had not
//    acknowledged one byte of the request. A reset proves nothing: a peer may read
//    everything, acknowledge nothing yet, and die; or
//  - the first was sent on a new connection: there curl repeats only what HTTP/2
//    refused as not begun (REFUSED_STREAM).
#include "backend_http.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/tcp.h> // glibc's own tcp_info is older; uv.h brings that one, so it is not here
#endif

static struct connection **find_connection(struct http *http, curl_socket_t fd) {
  struct connection **link = &http->connections;
  while (*link && (*link)->fd != fd)
    link = &(*link)->next;
  return link;
}

// How much the peer's TCP has acknowledged. 0: not known.
static uint64_t acknowledged_bytes(curl_socket_t fd) {
#ifdef __linux__
  struct tcp_info info = {0};
  socklen_t size = sizeof info;
  size_t needed = offsetof(struct tcp_info, tcpi_bytes_acked) + sizeof info.tcpi_bytes_acked;
  if (!getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) && size >= needed)
    return info.tcpi_bytes_acked;
#else
  (void)fd;
#endif
  return 0;
}

static curl_socket_t on_open(void *arg, curlsocktype purpose, struct curl_sockaddr *address) {
  struct http *http = arg;
  struct connection *made = calloc(1, sizeof *made);
  curl_socket_t fd = made ? socket(address->family, address->socktype, address->protocol) : CURL_SOCKET_BAD;
  (void)purpose;
  if (fd == CURL_SOCKET_BAD) {
    free(made);
    return CURL_SOCKET_BAD;
  }
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  made->fd = fd;
  made->next = http->connections;
  http->connections = made;
  return fd;
}

// The connection ended in order (no error of the socket's), with nothing of the
// last request acknowledged: the peer had closed before it came.
static bool never_arrived(const struct call *call, curl_socket_t fd) {
  long os_error = 0;
  if (!call->acknowledged || curl_easy_getinfo(call->easy, CURLINFO_OS_ERRNO, &os_error) != CURLE_OK)
    return false;
  return os_error == 0 && call->acknowledged == acknowledged_bytes(fd);
}

static int on_close(void *arg, curl_socket_t fd) {
  struct http *http = arg;
  struct connection **link = find_connection(http, fd), *gone = *link;
  if (gone) {
    struct call *last = NULL;
    int calls = 0;
    for (struct call *call = http->active; call; call = call->next) {
      if (call->connection != gone)
        continue;
      call->connection = NULL;
      last = call;
      calls++;
    }
    if (calls == 1) // what others share says nothing about one of them
      last->unread = never_arrived(last, fd);
    *link = gone->next;
    free(gone);
  }
  return close(fd);
}

static int local_port(struct connection *connection) {
  union {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
  } name = {0};
  socklen_t size = sizeof name;
  if (!connection->local_port && !getsockname(connection->fd, &name.any, &size))
    connection->local_port = ntohs(name.any.sa_family == AF_INET6 ? name.v6.sin6_port : name.v4.sin_port);
  return connection->local_port;
}

// NULL also where two have the same port, towards two addresses of the peer.
static struct connection *connection_with(struct http *http, int port) {
  struct connection *found = NULL;
  for (struct connection *it = http->connections; it; it = it->next) {
    if (local_port(it) != port)
      continue;
    if (found)
      return NULL;
    found = it;
  }
  return found;
}

// Before each sending of a request, those that curl repeats by itself included.
static int on_request(void *arg, char *peer, char *local, int peer_port, int port) {
  struct call *call = arg;
  (void)peer, (void)local, (void)peer_port;
  if (call->requests > 0) {
    bool never_ran = call->requests == 1 && (call->on_fresh || call->unread);
    if (!never_ran || !http_take_credit(call->http))
      return CURL_PREREQFUNC_ABORT;
  }
  struct connection *connection = connection_with(call->http, port);
  call->requests++;
  call->unread = false;
  call->connection = connection;
  call->on_fresh = connection && !connection->used;
  call->acknowledged = connection && connection->used ? acknowledged_bytes(connection->fd) : 0;
  if (connection)
    connection->used = true;
  return CURL_PREREQFUNC_OK;
}

CURLcode http_connections_configure(struct call *call) {
  CURL *easy = call->easy;
  CURLcode result = CURLE_OK;
#define SET(option, value) (result = result ? result : curl_easy_setopt(easy, option, value))
  SET(CURLOPT_OPENSOCKETFUNCTION, on_open);
  SET(CURLOPT_OPENSOCKETDATA, call->http);
  SET(CURLOPT_CLOSESOCKETFUNCTION, on_close);
  SET(CURLOPT_CLOSESOCKETDATA, call->http);
  SET(CURLOPT_PREREQFUNCTION, on_request);
  SET(CURLOPT_PREREQDATA, call);
#undef SET
  return result;
}
