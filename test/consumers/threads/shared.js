// What the programs here share: a run that lasts, and who is there.

const fs = require('node:fs');
const { setTimeout: sleep } = require('node:timers/promises');

const ENDLESS = {
  javascript: (title) => `process.title = '${title}'; console.log('on'); for (;;) {}`,
  python: () => "print('on', flush=True)\nwhile True: pass",
};

/** Starts a run without an end. `on` is when it runs. @param {'javascript' | 'python'} language */
function endless(runCode, language, title = 'endless', signal = undefined) {
  let onStdout;
  const on = new Promise((resolve) => (onStdout = resolve));
  const run = runCode({ language, code: ENDLESS[language](title), timeoutMs: 60000 }, { signal, onStdout });
  return { on, run };
}

/** The command lines of all processes below `root`. */
function below(root = process.pid) {
  const read = (file) => {
    try {
      return fs.readFileSync(file, 'latin1');
    } catch {
      return ''; // it has ended
    }
  };
  const found = [];
  const seen = [String(root)];
  for (const pid of seen) {
    const tasks = fs.existsSync(`/proc/${pid}/task`) ? fs.readdirSync(`/proc/${pid}/task`) : [];
    for (const task of tasks) {
      for (const child of read(`/proc/${pid}/task/${task}/children`).split(' ').filter(Boolean)) {
        seen.push(child);
        found.push(read(`/proc/${child}/cmdline`).replaceAll('\0', ' ').trim());
      }
    }
  }
  return found;
}

/** Waits until it is so. @param {() => boolean} check */
async function until(check, what) {
  for (let i = 0; i < 2000; i++) {
    if (check()) return;
    await sleep(10);
  }
  throw new Error(`waited in vain: ${what}\n${below().join('\n')}`);
}

const count = (title, root) => below(root).filter((command) => command.startsWith(title)).length;

module.exports = { below, count, endless, until };
