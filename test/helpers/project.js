'use strict';
// A project in the cloud that is an object, and the deploy scripts run on it. Their
// gcloud asks this process, which answers with test/fixtures/gcloud.js; docker, git and
// code-jail are a few lines each.

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { parse, Failure } = require('../fixtures/gcloud.js');

const ROOT = path.join(__dirname, '..', '..');
const ID = 'a-project';
const DIGEST = `sha256:${'d'.repeat(64)}`;

const folders = [];
process.on('exit', () => {
  for (const folder of folders) fs.rmSync(folder, { recursive: true, force: true });
});

const EMPTY = {
  id: ID,
  apis: [],
  networks: [],
  subnets: [],
  firewall: [],
  routes: [],
  policies: [],
  accounts: [],
  secrets: [],
  repositories: [],
  images: [],
  services: [],
  revisions: [],
  policy: { bindings: [{ role: 'roles/owner', members: ['user:owner@example.com'] }] },
};

const PROGRAMS = {
  // Over a connection, because a Node.js for each of a hundred commands takes its time.
  gcloud: `#!/bin/bash
{ set +x; } 2>/dev/null
exec 3<>"/dev/tcp/127.0.0.1/$FAKE_PORT"
input=
case "$*" in *--data-file=-*) input=$(cat) ;; esac
printf '%s\\0' "$#" "$@" "$input" "$FAKE_FAIL" >&3
read -r status <&3
read -r error <&3
[ -z "$error" ] || echo "$error" >&2
cat <&3
exit "$status"
`,
  docker: `#!/bin/bash
exec gcloud docker "$@"
`,
  git: '#!/bin/sh\ncase "$*" in *rev-parse*) echo 0123456789ab ;; esac\n',
  // In the place of code-jail verify: what it was given, and the verdict that the test wants.
  verify: `#!/bin/sh
printf '%s\\n' "$*" "$CODE_SANDBOX_TOKEN" "$CODE_SANDBOX_IDENTITY_TOKEN" >"$FAKE_FOLDER/verify.log"
exit "\${FAKE_VERDICT:-0}"
`,
};

/** One message: the number of arguments, those, standard input, and what has to fail. */
function whole(text) {
  const parts = text.split('\0');
  const count = Number(parts[0]);
  return parts.length > count + 3
    ? { argv: parts.slice(1, count + 1), input: parts[count + 1], failing: parts[count + 2] }
    : null;
}

function answer(project, log, { argv, input, failing }) {
  try {
    const line = argv.join(' ');
    if (argv[0] === 'docker') {
      log.push({ argv, command: line, reads: argv[1] === 'info' });
      if (failing && line.includes(failing)) throw new Failure('as the test wants it');
      if (argv[1] === 'push') project.images.push({ tag: argv[2].split(':').pop(), digest: DIGEST });
      return '0\n\n';
    }
    const { command, reads, act } = parse(project, argv, input);
    log.push({ argv, command, reads });
    if (failing && line.includes(failing)) throw new Failure('PERMISSION_DENIED: as the test wants it');
    return `0\n\n${act()}`;
  } catch (error) {
    if (!(error instanceof Failure)) process.stderr.write(`${error.stack}\n`);
    return `1\nERROR: (gcloud) ${error.message}\n`;
  }
}

/** @param {object} [state] what differs from an empty project */
function newProject(state = {}) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'project-'));
  folders.push(folder);
  const bin = path.join(folder, 'bin');
  fs.mkdirSync(bin);
  for (const [name, text] of Object.entries(PROGRAMS)) fs.writeFileSync(path.join(bin, name), text, { mode: 0o755 });
  const project = structuredClone({ ...EMPTY, ...state });
  let log = [];
  const server = net.createServer((socket) => {
    let text = '';
    socket.setEncoding('utf8').on('data', (part) => {
      text += part;
      const message = whole(text);
      if (message) socket.end(answer(project, log, message));
    });
    socket.on('error', () => {});
  });
  const listening = new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  server.unref();

  /** @returns {Promise<{ status: number, out: string, log: any[], changes: string[], verified: string[] }>} */
  const run = async (script, args = [], env = {}) => {
    await listening;
    log = [];
    const verified = path.join(folder, 'verify.log');
    fs.rmSync(verified, { force: true });
    const child = spawn('bash', [path.join(ROOT, script), ...args], {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        PATH: `${bin}:${path.dirname(process.execPath)}:/usr/bin:/bin`,
        HOME: folder,
        TMPDIR: folder,
        PROJECT_ID: ID,
        FAKE_FOLDER: folder,
        FAKE_PORT: String(/** @type {net.AddressInfo} */ (server.address()).port),
        FAKE_FAIL: '',
        SMOKE_VERIFY: path.join(bin, 'verify'),
        SANDBOX_BUILD: 'docker',
        ...env,
      },
    });
    let out = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (part) => {
        out += part;
      });
    const status = await new Promise((resolve, reject) => child.on('error', reject).on('close', resolve));
    return {
      status: Number(status),
      out,
      log,
      changes: log.filter((one) => !one.reads).map((one) => one.command),
      verified: fs.existsSync(verified) ? fs.readFileSync(verified, 'utf8').split('\n').slice(0, -1) : [],
    };
  };
  return { run, folder, project };
}

const SANDBOX = 'infra/gcp/deploy-sandbox.sh';
const DASHBOARD = 'scripts/deploy-gcp.sh';
const SMOKE = 'infra/gcp/smoke.sh';
const ROTATE = 'infra/gcp/rotate-token.sh';

/** A project in which the sandbox serves: deployed once, then copied. @type {any} */
let served;
async function deployed() {
  if (!served) {
    const first = newProject();
    const run = await first.run(SANDBOX);
    if (run.status !== 0) throw new Error(run.out);
    served = first.project;
  }
  return newProject(served);
}

const argvOf = (run, command) => run.log.find((one) => one.command === command)?.argv ?? [];
const trafficOf = (project, name = 'opendoor-sandbox') =>
  project.services.find((one) => one.metadata.name === name).status.traffic.filter((one) => one.percent);
const revisionOf = (project, image) =>
  project.revisions.findLast((one) => one.spec.containers[0].image.includes(image))?.metadata.name;

module.exports = {
  argvOf,
  deployed,
  newProject,
  revisionOf,
  trafficOf,
  ID,
  DIGEST,
  ROOT,
  SANDBOX,
  DASHBOARD,
  SMOKE,
  ROTATE,
};
