'use strict';
// The hosts in which they are not, and run only by allowWeak.

require('./environments/check.js').checkEnvironments(({ weak }) => weak);
