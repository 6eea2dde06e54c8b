// wire.c: see wire.h. What a cell wrote is judged here: everything it may say is
// listed, everything else is the sign of a guest that writes frames itself.
#include "wire.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "json.h"
#include "text.h"

enum { META_NODES_MAX = 64 };

const char *wire_value(const char *text, size_t bytes, const char *key, size_t *at) {
  size_t name = strlen(key);
  while (*at < bytes) {
    const char *entry = text + *at;
    const char *end = memchr(entry, 0, bytes - *at);
    if (!end)
      break;
    *at += (size_t)(end - entry) + 1;
    if ((size_t)(end - entry) > name && !memcmp(entry, key, name) && entry[name] == '=')
      return entry + name + 1;
  }
  return NULL;
}

bool wire_report(const char *message, size_t size, struct report *report, const char **text, size_t *text_bytes) {
  if (size < sizeof *report)
    return false;
  memcpy(report, message, sizeof *report);
  *text = message + sizeof *report;
  *text_bytes = size - sizeof *report;
  return report->type >= REPORT_READY && report->type <= REPORT_GONE;
}

bool wire_frame_sane(const struct frame_header *header, const struct jail_request *request) {
  uint32_t max_result_bytes = request->max_result_bytes < 4 ? 4 : request->max_result_bytes; // null is never too large
  if (header->magic != FRAME_MAGIC)
    return false;
  if (header->kind == FRAME_OK)
    return header->meta_bytes <= (request->collect ? PROTOCOL_FILES_MAX : 0) && header->result_bytes > 0 &&
           header->result_bytes <= max_result_bytes;
  if (header->meta_bytes > PROTOCOL_META_MAX)
    return false;
  switch (header->kind) {
  case FRAME_ERROR:
  case FRAME_NOT_SERIALIZABLE:
  case FRAME_RESULT_TOO_LARGE:
    return header->meta_bytes > 0 && header->result_bytes == 0;
  case FRAME_WHERE:
    return header->meta_bytes > 0 && header->meta_bytes <= PIPE_BUF && header->result_bytes == 0;
  case FRAME_OUT_OF_MEMORY:
    return header->result_bytes == 0;
  case FRAME_ABORTED:
    return header->meta_bytes == 0 && header->result_bytes == 0;
  default:
    return false;
  }
}

// A member that is a string, null or not there.
static bool read_text(const struct json_doc *doc, int object, const char *name, struct jail_text *text) {
  int value = json_member(doc, object, name);
  return value < 0 || json_is_null(doc, value) || json_text(doc, value, text);
}

// A member that is a positive integer, null or not there.
static bool read_position(const struct json_doc *doc, int object, const char *name, uint32_t *position) {
  int value = json_member(doc, object, name);
  int64_t number;
  if (value < 0 || json_is_null(doc, value))
    return true;
  if (!json_integer(doc, value, &number) || number < 0 || number > INT32_MAX)
    return false;
  *position = (uint32_t)number;
  return true;
}

static bool read_fault(const struct json_doc *doc, int error, struct jail_fault *fault) {
  fault->present = true;
  return json_is_object(doc, error) && !json_has_twins(doc, error) && read_text(doc, error, "name", &fault->name) &&
         read_text(doc, error, "message", &fault->message) && read_text(doc, error, "stack", &fault->stack) &&
         read_text(doc, error, "sourceLine", &fault->source_line) && read_text(doc, error, "path", &fault->path) &&
         read_position(doc, error, "line", &fault->line) && read_position(doc, error, "column", &fault->column);
}

// {"exitCode":n?,"error":{...}}
static bool read_meta(const char *text, size_t size, struct jail_outcome *outcome) {
  struct json_doc doc;
  int64_t code = 1;
  if (json_parse(&doc, text, size, META_NODES_MAX) != JSON_FINE)
    return false;
  int exit_code = json_member(&doc, 0, "exitCode");
  bool fine = json_is_object(&doc, 0) && !json_has_twins(&doc, 0) &&
              (exit_code < 0 || json_is_null(&doc, exit_code) || json_integer(&doc, exit_code, &code)) && code >= 0 &&
              code <= 255 && read_fault(&doc, json_member(&doc, 0, "error"), &outcome->fault);
  outcome->exit_code = (int32_t)code;
  json_free(&doc);
  return fine;
}

static enum jail_status status_of(uint32_t kind) {
  switch (kind) {
  case FRAME_OK:
    return JAIL_STATUS_OK;
  case FRAME_ERROR:
    return JAIL_STATUS_ERROR;
  case FRAME_NOT_SERIALIZABLE:
    return JAIL_STATUS_NOT_SERIALIZABLE;
  case FRAME_RESULT_TOO_LARGE:
    return JAIL_STATUS_RESULT_TOO_LARGE;
  case FRAME_OUT_OF_MEMORY:
    return JAIL_STATUS_OUT_OF_MEMORY;
  default:
    return JAIL_STATUS_KILLED;
  }
}

bool wire_frame(const struct frame_header *header, char *body, struct jail_outcome *outcome) {
  bool fine = true;
  if (header->kind == FRAME_OK) {
    fine = header->meta_bytes == 0 || files_read(&outcome->files, body, header->meta_bytes) == 0;
    if (fine)
      fine = text_take(&outcome->result, body, body + header->meta_bytes, header->result_bytes) == 0;
    else
      free(body);
    outcome->exit_code = fine ? 0 : -1;
  } else {
    outcome->exit_code = header->kind == FRAME_ABORTED ? -1 : 1;
    fine = header->meta_bytes == 0 || read_meta(body, header->meta_bytes, outcome);
    free(body);
  }
  if (fine) {
    outcome->status = status_of(header->kind);
  } else {
    wire_fault_free(&outcome->fault);
    text_free(&outcome->files);
    outcome->exit_code = -1;
  }
  return fine;
}

void wire_fault_free(struct jail_fault *fault) {
  text_free(&fault->name);
  text_free(&fault->message);
  text_free(&fault->source_line);
  text_free(&fault->stack);
  text_free(&fault->path);
  *fault = (struct jail_fault){0};
}

void wire_where(const char *body, size_t size, struct jail_fault *fault) {
  struct jail_outcome told = {0};
  if (read_meta(body, size, &told) && told.fault.line) {
    fault->line = told.fault.line;
    fault->column = told.fault.column;
    fault->source_line = told.fault.source_line;
    fault->stack = told.fault.stack;
    told.fault.source_line = told.fault.stack = (struct jail_text){0};
  }
  wire_fault_free(&told.fault);
}
