// remote_text.h: pieces of a request as JSON text. Caller: remote.c, engine thread.
// Each: 0, or -1 where it is over out's ceiling.
#ifndef CODE_JAIL_REMOTE_TEXT_H
#define CODE_JAIL_REMOTE_TEXT_H

#include "buf.h"

int remote_add_text(struct buf *out, const char *text);                 // as it is
int remote_add_string(struct buf *out, const char *bytes, size_t size); // quoted; UTF-8
int remote_add_base64(struct buf *out, const char *bytes, size_t size); // quoted
// struct job_file entries, as ,"files":{"path":{"base64":"..."},...}. Nothing where there are none.
int remote_add_files(struct buf *out, const char *files, size_t size);

#endif
