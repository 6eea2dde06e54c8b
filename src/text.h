// text.h: bytes from outside, made into text as JavaScript engines store it.
// Callers: the core, on the engine thread, so that the JS thread need not.
#ifndef CODE_JAIL_TEXT_H
#define CODE_JAIL_TEXT_H

#include "jail.h"

// Decodes UTF-8; what is no UTF-8 becomes U+FFFD, as the Encoding Standard has
// it. *text is the caller's. 0, or -1 without memory.
int text_from_utf8(struct jail_text *text, const char *bytes, size_t size);
// The same, but takes `bytes` (from malloc; also on failure): ASCII is not copied.
// data may point into it.
int text_take(struct jail_text *text, char *block, const char *bytes, size_t size);
// From what stands between the quotes of a JSON string that has been checked.
int text_from_json(struct jail_text *text, const char *raw, size_t size);
// Static text, never freed.
struct jail_text text_static(const char *ascii);
void text_free(struct jail_text *text);

#endif
