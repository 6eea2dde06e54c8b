// The smallest program there is, as an ES module: nothing of a jail that was used keeps it.
import { createJail, JailError, runCode } from 'code-jail';

const run = await runCode({ language: 'javascript', code: 'return input', input: 1 });
const jail = createJail({ parked: 2 });
await jail.warm();
const refused = await runCode({ language: 'cobol', code: '' }).catch((error) => error);
if (run.result === 1 && refused instanceof JailError) console.log('done');
