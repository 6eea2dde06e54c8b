// sources: src/json.c src/json_scan.c src/text.c
// What json.c accepts, refuses and reads. Differences from JSON.parse are looked
// for by test/json.test.js.
#include "json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

static int count, failed;

static void ok(int fine, const char *what) {
  printf("%sok %d - %s\n", fine ? "" : "not ", ++count, what);
  failed += !fine;
}

static enum json_fault check(const char *text) {
  return json_check(text, strlen(text), 1000);
}

static void refuses(void) {
  static const char *const bad[] = {
    "",
    " ",
    "{",
    "[",
    "]",
    "{\"a\"}",
    "{}{}",
    ":,:{},:,",
    "{\"a\":::\"b\"}",
    "[1,]",
    "[,1]",
    "[1 \"b\"]",
    "{\"a\":1,}",
    "{,}",
    "{1:2}",
    "01",
    "-",
    "1.",
    ".5",
    "1e",
    "1e+",
    "+1",
    "NaN",
    "Infinity",
    "tru",
    "truex",
    "nul",
    "\"",
    "\"\\",
    "\"\\x\"",
    "\"\\u12\"",
    "\"\\u12g4\"",
    "\"\t\"",
    "\"\n\"",
    "'a'",
    "[1]]",
    "[}",
    "{]",
    "{\"a\" 1}",
    "//",
    "/**/1",
    "\xef\xbb\xbf"
    "1",
    "1 2",
    "\v1",
  };
  int fine = 1;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (check(bad[i]) == JSON_FINE) {
      printf("# accepted: %s\n", bad[i]);
      fine = 0;
    }
  ok(fine, "what is no JSON is refused");
  ok(json_check("1\0", 2, 10) == JSON_GRAMMAR, "a NUL behind the value is refused");
  ok(json_check("\"a\0b\"", 5, 10) == JSON_GRAMMAR, "a raw NUL in a string is refused");
}

static void accepts(void) {
  static const char *const good[] = {
    "0",
    "-0",
    "1e999999",
    "-1.5E-3",
    "\"\"",
    "\"\\ud800\"",
    "\"\\u0000\\/\\b\"",
    "null",
    " true ",
    "\r\n\t[ ]",
    "{ }",
    "[[],[],{}]",
    "{\"a\":{\"b\":[1,2,{\"c\":null}]},\"a\":2}",
    "\"\xf0\x9f\x98\x80 \xe2\x80\xa8\"",
    "\"\x7f\"",
  };
  int fine = 1;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    if (check(good[i]) != JSON_FINE) {
      printf("# refused: %s\n", good[i]);
      fine = 0;
    }
  ok(fine, "what is JSON is accepted");
}

static void judges_utf8(void) {
  static const char *const bad[] = {
    "\"\x80\"",
    "\"\xc0\x80\"",
    "\"\xc1\xbf\"",
    "\"\xe0\x80\x80\"",
    "\"\xed\xa0\x80\"",
    "\"\xf0\x80\x80\x80\"",
    "\"\xf4\x90\x80\x80\"",
    "\"\xf5\x80\x80\x80\"",
    "\"\xff\"",
    "\"\xe2\x82\"",
    "\"\xe2",
  };
  int fine = 1;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    fine = fine && check(bad[i]) != JSON_FINE;
  ok(fine, "what is no UTF-8 is refused: overlong, surrogates, too large, cut");
}

// The same verdict, whatever the parts are.
static void in_parts(void) {
  static const char *const texts[] = {
    "{\"a\": [1, -2.5e+10, true], \"\\u00e9\\n\": \"\xe2\x82\xac\xf0\x9f\x98\x80 and some more\", \"b\": null} ",
    "123",
    "-0.5",
    "[\"\\ud800\", false]",
    "[1,2,]",
    "[1 2]",
    "{\"a\":tru}",
    "\"\xe2\x82\"",
    "1e",
    "\"abc",
    "[",
    "1 1",
    "nul",
  };
  int fine = 1;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    for (size_t part = 1; part <= strlen(texts[i]); part++) {
      size_t size = strlen(texts[i]);
      struct json_scan scan;
      enum json_fault fault = JSON_FINE;
      json_scan_begin(&scan, 100);
      for (size_t there = part; there < size && !fault; there += part) {
        char *exact = malloc(there); // moved each time, as a growing buffer may be
        memcpy(exact, texts[i], there);
        fault = json_scan_more(&scan, exact, there, false);
        free(exact);
      }
      if (!fault)
        fault = json_scan_more(&scan, texts[i], size, true);
      if (!fault != !check(texts[i])) {
        printf("# %s in parts of %zu: %d\n", texts[i], part, fault);
        fine = 0;
      }
    }
  ok(fine, "a text in parts is judged as the whole");
}

static void counts(void) {
  char deep[2 * (JSON_DEPTH_MAX + 1) + 1] = {0};
  memset(deep, '[', JSON_DEPTH_MAX);
  memset(deep + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
  ok(json_check(deep, 2 * JSON_DEPTH_MAX, 10000) == JSON_FINE, "512 levels pass");
  memset(deep, '[', JSON_DEPTH_MAX + 1);
  memset(deep + JSON_DEPTH_MAX + 1, ']', JSON_DEPTH_MAX + 1);
  ok(json_check(deep, 2 * (JSON_DEPTH_MAX + 1), 10000) == JSON_TOO_DEEP, "513 do not");
  size_t much = 10 << 20;
  char *open = malloc(much);
  memset(open, '[', much);
  ok(json_check(open, much, UINT32_MAX) == JSON_TOO_DEEP, "ten million of them end at once");
  free(open);
  ok(json_check("[1,2,3]", 7, 4) == JSON_FINE && json_check("[1,2,3]", 7, 3) == JSON_TOO_MANY, "values are counted");
  ok(json_check("1", 1, 0) == JSON_TOO_MANY, "none allowed is none");
  ok(json_check("{\"a\":[],\"b\":{}}", 15, 3) == JSON_FINE, "names do not count");
}

static int is(const struct json_doc *doc, int value, const char *want) {
  struct jail_text text;
  if (!json_text(doc, value, &text))
    return 0;
  int same = text.units == strlen(want);
  for (size_t i = 0; same && i < text.units; i++)
    same = want[i] == (text.wide ? ((const uint16_t *)text.data)[i] : ((const char *)text.data)[i]);
  text_free(&text);
  return same;
}

static void reads(void) {
  static const char text[] =
    "{\"n\":-12,\"big\":9007199254740993,\"half\":1.5,\"o\":{\"s\":\"x\\ny\",\"n\":\"inner\"},\"list\":[1,{\"k\":2},3],"
    "\"s\":\"outer\",\"null\":null,\"wide\":\"\\ud83d\\ude00\\ud800\"}";
  struct json_doc doc;
  struct jail_text wide;
  int64_t number = 0;
  const char *start;
  size_t size;
  ok(json_parse(&doc, text, sizeof text - 1, 100) == JSON_FINE, "a document is parsed");
  ok(json_integer(&doc, json_member(&doc, 0, "n"), &number) && number == -12, "an integer");
  ok(!json_integer(&doc, json_member(&doc, 0, "big"), &number), "not past 2^53");
  ok(!json_integer(&doc, json_member(&doc, 0, "half"), &number), "nor a fraction");
  ok(is(&doc, json_member(&doc, 0, "s"), "outer"), "a member behind nested ones");
  ok(is(&doc, json_member(&doc, json_member(&doc, 0, "o"), "s"), "x\ny"), "a member within, unescaped");
  ok(json_member(&doc, 0, "k") < 0 && json_member(&doc, json_member(&doc, 0, "list"), "k") < 0, "not one of another");
  ok(json_is_null(&doc, json_member(&doc, 0, "null")) && !json_is_null(&doc, -1), "null, and nothing");
  ok(json_text(&doc, json_member(&doc, 0, "wide"), &wide) && wide.wide && wide.units == 3 &&
       ((const uint16_t *)wide.data)[2] == 0xD800,
     "surrogates, alone too");
  text_free(&wide);
  json_span(&doc, json_member(&doc, 0, "list"), &start, &size);
  ok(size == 13 && !memcmp(start, "[1,{\"k\":2},3]", size), "a value's own text");
  ok(!json_has_twins(&doc, 0), "no twins");
  json_free(&doc);
  ok(json_parse(&doc, "{\"a\":1,\"b\":{\"a\":2},\"a\":3}", 25, 100) == JSON_FINE && json_has_twins(&doc, 0), "twins");
  json_free(&doc);
  ok(json_parse(&doc, "[1,2", 4, 100) == JSON_GRAMMAR && !doc.tokens, "what is refused leaves nothing");
  ok(json_parse(&doc, "5", 1, 100) == JSON_FINE && json_member(&doc, 0, "a") < 0, "a number has no members");
  json_free(&doc);
}

int main(void) {
  refuses();
  accepts();
  judges_utf8();
  in_parts();
  counts();
  reads();
  printf("1..%d\n", count);
  return failed != 0;
}
