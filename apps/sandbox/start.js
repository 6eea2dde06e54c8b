'use strict';
// The sandbox image's program. Settings come from the environment; see README.md.

const { serve } = require('../../lib/server/serve.js');

serve({ host: process.env.CODE_SANDBOX_HOST || '0.0.0.0' }).then(
  (code) => process.exit(code),
  (error) => {
    process.stderr.write(`${error.code ?? error.name}: ${error.message}\n`);
    process.exit(1);
  },
);
