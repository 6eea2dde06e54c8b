'use strict';
// What this machine's kernel may not have: a cgroup of ours, and an older Landlock.

require('./environments/check.js').checkEnvironments(({ microvm }) => microvm);
