// backend_http_trust.c: see backend_http.h. The static build has an OpenSSL of
// its own beside Node's; what the two could share of the process (the
// environment, openssl.cnf, the clean-up at exit) is kept away from it here.
#include "backend_http.h"

#include <stdlib.h>
#include <string.h>
#ifdef CODE_JAIL_CURL_STATIC
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

// Ours instead of libcurl's: nothing of the host's environment reaches it, neither
// proxies nor key logs nor a home folder.
char *curl_getenv(const char *name) {
  (void)name;
  return NULL;
}

bool http_trust_start(void) {
  static bool started; // engine thread only; there is one
  // No openssl.cnf of the host's; and no clean-up at exit, while this thread runs.
  if (!started && OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL))
    started = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return started;
}

// Or OpenSSL would ask for one on the terminal.
static int no_password(char *to, int size, int writing, void *arg) {
  (void)to, (void)size, (void)writing, (void)arg;
  return -1;
}

static X509_STORE *read_store(const char *pem, size_t bytes) {
  X509_STORE *store = X509_STORE_new();
  BIO *bio = BIO_new_mem_buf(pem, (int)bytes);
  X509 *certificate;
  bool any = false;
  while (store && bio && !BIO_eof(bio)) {
    if (!(certificate = PEM_read_bio_X509_AUX(bio, NULL, no_password, NULL)))
      continue; // text between them, or a broken one: as Node does, leave it out
    any = X509_STORE_add_cert(store, certificate) == 1 || any;
    X509_free(certificate);
  }
  ERR_clear_error();
  BIO_free(bio);
  if (any) {
    X509_STORE_set_flags(store, X509_V_FLAG_TRUSTED_FIRST);
    return store;
  }
  X509_STORE_free(store);
  return NULL;
}

// Reading the roots takes some 20 ms; curl's own way would do so per connection.
void *http_trust_open(const char *pem, size_t bytes) {
  static struct {
    char *pem;
    size_t bytes;
    X509_STORE *store;
  } last; // engine thread only
  if (!last.store || last.bytes != bytes || memcmp(last.pem, pem, bytes) != 0) {
    X509_STORE *store = bytes && bytes <= INT32_MAX ? read_store(pem, bytes) : NULL;
    char *copy = store ? malloc(bytes) : NULL;
    if (!copy) {
      X509_STORE_free(store);
      return NULL;
    }
    memcpy(copy, pem, bytes);
    X509_STORE_free(last.store);
    free(last.pem);
    last.pem = copy;
    last.bytes = bytes;
    last.store = store;
  }
  return X509_STORE_up_ref(last.store) ? last.store : NULL;
}

void http_trust_close(void *trust) {
  X509_STORE_free(trust);
}

static CURLcode on_ssl_ctx(CURL *easy, void *context, void *arg) {
  const struct http *http = arg;
  (void)easy;
  SSL_CTX_set1_cert_store(context, http->trust);
  SSL_CTX_set_keylog_callback(context, NULL);
  return CURLE_OK;
}

CURLcode http_trust_configure(CURL *easy, struct http *http) {
  CURLcode result = curl_easy_setopt(easy, CURLOPT_SSL_CTX_DATA, http);
  return result ? result : curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, on_ssl_ctx);
}

#else // the machine's libcurl, whose TLS may be anybody's

bool http_trust_start(void) {
  static bool started;
  return started || (started = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
}

// Left to curl, which reads them for each connection.
void *http_trust_open(const char *pem, size_t bytes) {
  (void)pem;
  static char some;
  return bytes ? &some : NULL;
}

void http_trust_close(void *trust) {
  (void)trust;
}

CURLcode http_trust_configure(CURL *easy, struct http *http) {
  struct curl_blob roots = {(void *)http->config->ca, http->config->ca_bytes, CURL_BLOB_NOCOPY};
  return curl_easy_setopt(easy, CURLOPT_CAINFO_BLOB, &roots);
}
#endif

const char *jail_http_version(void) {
#ifdef CODE_JAIL_CURL_STATIC
  return "static " LIBCURL_VERSION " " OPENSSL_VERSION_TEXT;
#else
  return "shared " LIBCURL_VERSION;
#endif
}
