const { JailError, runCode } = require('code-jail');

async function main() {
  const { result } = await runCode({ language: 'javascript', code: 'return input', input: 42 });
  const { result: more } = await runCode({ language: 'python', code: 'result = input', input: 43 });
  const refused = await runCode({ language: 'cobol', code: '' }).catch((error) => error);
  console.log(result, more, refused instanceof JailError);
}

main().catch((error) => {
  console.log(error.name, error.code, error.message);
  process.exit(1);
});
