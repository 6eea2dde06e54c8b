// sources: src/cell/cell.c src/cell/landlock.c src/cell/rlimits.c src/cell/filters.c src/cell/seccomp.c
//
// root.c's reading of mountinfo, on texts that a host could have; the file is
// included, because nothing of this is its interface.
#include "../../src/cell/root.c"

static int points, failures;

static void point(bool good, const char *name) {
  printf("%sok %d - %s\n", good ? "" : "not ", ++points, name);
  failures += !good;
}

static void test_options(void) {
  point(has_option("ro,nosuid,nodev,relatime", "ro"), "first option");
  point(has_option("rw,nosuid", "nosuid"), "last option");
  point(has_option("ro", "ro"), "only option");
  point(!has_option("rw,errors=remount-ro", "ro"), "not within another option");
  point(!has_option("rw,nosuidx", "nosuid") && !has_option("rw,xnosuid", "nosuid"), "not a part of a name");
  point(!has_option("", "ro") && !has_option(NULL, "ro"), "none at all");
}

static void test_beneath(void) {
  point(is_beneath("/rt", "/rt") && is_beneath("/rt/lib", "/rt"), "itself and beneath");
  point(!is_beneath("/rtx", "/rt") && !is_beneath("/r", "/rt"), "not what begins alike");
}

static void test_lines(void) {
  char text[] = "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
                "23 27 254:1 /a\\040b /rt/with\\040blank ro,nosuid shared:1 master:2 - ext4 /dev/x rw\n"
                "24 27 0:5 / / ro - tmpfs tmpfs rw";
  char *rest = text;
  struct mount_line line;
  point(next_mount(&rest, &line) && !strcmp(line.path, "/proc") && !strcmp(line.options, "rw,relatime"), "a line");
  point(next_mount(&rest, &line) && !strcmp(line.path, "/rt/with\\040blank") && has_option(line.options, "nosuid"),
        "a blank in a path, optional fields");
  point(next_mount(&rest, &line) && !strcmp(line.path, "/") && !strcmp(line.options, "ro"), "a last line without end");
  point(!next_mount(&rest, &line), "and then none");
  char broken[] = "22 27 0:21 /\n";
  rest = broken;
  point(!next_mount(&rest, &line), "a line that breaks off is none");
}

static void test_self(void) {
  struct mount_line line;
  int count = 0;
  char *text = read_mounts(), *rest = text;
  while (text && next_mount(&rest, &line))
    count += line.path[0] == '/' && (has_option(line.options, "ro") || has_option(line.options, "rw"));
  point(count > 0, "this host's own mounts");
  free(text);
}

static void test_targets(void) {
  point(make_directories("relative", true) == -EINVAL, "a relative target");
  char long_path[5000];
  memset(long_path, 'a', sizeof long_path);
  long_path[0] = '/';
  long_path[sizeof long_path - 1] = '\0';
  point(make_directories(long_path, true) == -EINVAL, "a target that is too long");
}

int main(void) {
  test_options();
  test_beneath();
  test_lines();
  test_self();
  test_targets();
  printf("1..%d\n", points);
  return failures != 0;
}
