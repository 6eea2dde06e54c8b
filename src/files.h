// files.h: what a run has left behind and was asked for, as JSON text of a guest's
// or another host's making: { "files": { path: { "base64": text } }, "filesMissing":
// [{ "path": text, "reason": text }] }. Its shape is checked here; which paths were
// asked for is known to lib/files.js. Callers: the core, engine thread.
#ifndef CODE_JAIL_FILES_H
#define CODE_JAIL_FILES_H

#include "jail.h"
#include "json.h"

// Values in such a text: at most 256 files, and twice as many that are missing.
enum { FILES_MAX = 256, FILES_MISSING_MAX = 512, FILES_NODES_MAX = 4 + 3 * FILES_MAX + 5 * FILES_MISSING_MAX };

// Of the two values of a document, written anew around them. *text is the caller's.
// 0, or -1 where they are not what they should be, or without memory.
int files_text(struct jail_text *text, const struct json_doc *doc, int files, int missing);

// The same of a text that holds both and nothing else.
int files_read(struct jail_text *text, const char *json, size_t size);

#endif
