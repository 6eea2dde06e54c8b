/**
 * code-jail: runs JavaScript and Python that a program does not trust, each run
 * in a fresh process behind kernel walls.
 *
 * What becomes of the code is a result and resolves the promise; failure of the
 * jail itself rejects it with a {@link JailError}.
 */

/** A value that JSON can hold. */
export type JsonValue = null | boolean | number | string | JsonValue[] | { [key: string]: JsonValue };

/** Like what JSON.parse gives: name a type, `runCode<Totals>(…)`, to have it checked. */
// biome-ignore lint/suspicious/noExplicitAny: see above
export type AnyResult = any;

export type Language = 'javascript' | 'python' | 'typescript';

/**
 * How strongly a run is kept apart, weakest first.
 *
 * - `process`: a process behind kernel walls, on the host's own kernel. What the local jail gives.
 * - `gvisor`: a kernel in user space between the code and the host's. From a sandbox service or a jailer.
 * - `microvm`: a virtual machine with a kernel of its own. From a jailer alone.
 */
export type Isolation = 'process' | 'gvisor' | 'microvm';

/**
 * One run. An unknown field, a wrong type, or a value over its cap is refused
 * with ERR_JAIL_INVALID_REQUEST, whose message names the field and the limit;
 * nothing is clamped. Only own properties are read, and `undefined` is as good as absent.
 */
export interface RunRequest {
  /** Required. */
  language: Language;

  /**
   * The program. Required; at most 1048576 bytes of UTF-8. Half a surrogate pair is refused.
   *
   * JavaScript: the body of an async function (`return` and `await` work), or a
   * module (its default export or exported `main`). Python: a module; its result
   * is `main(input)` if it defines `main`, otherwise the variable `result`; `input` hides the builtin.
   * TypeScript: as JavaScript, its types erased and not checked, each line and column kept; what cannot be
   * erased (enum, namespaces with values, parameter properties, `import x = require()`) is an error. Imports
   * and exports of types alone make no module of a text.
   *
   * Signals that it sends to itself are ignored (it is pid 1 of its namespace), but for an abort or
   * a fault of memory. JavaScript has no worker_threads.
   */
  code: string;

  /**
   * In scope as `input`. Default null; at most 16777216 bytes as JSON, 512 levels.
   *
   * As JSON.stringify has it: `toJSON` is honoured, NaN becomes null, `undefined`
   * in an object is left out. What JSON would lose silently is refused, named by its path:
   * functions, symbols, BigInt, circular references, Map, Set, Promise, RegExp,
   * Error, typed arrays and ArrayBuffer. (A Buffer has a toJSON of its own.) It is over the
   * limit as soon as that is certain, without being written whole.
   */
  input?: unknown;

  /**
   * Files in its working folder before it runs, by relative path: text as UTF-8, or bytes. They count
   * towards `memoryMb`. Default none; at most 256, 8388608 bytes in all. A path has at most 255 bytes and 16
   * levels, without empty parts, `.`, `..`, backslash and NUL.
   */
  files?: Record<string, string | Uint8Array>;

  /**
   * Files that are read from its working folder when it has ended with `ok` by itself, and come in the result's
   * `files`: relative paths, at most 64; a folder's stands for all that is in it. At most 256 files and 8388608 bytes
   * come; links are not followed. What does not come is in `filesMissing`.
   */
  collect?: string[];

  /**
   * Wall time of the code, in ms; waiting and starting do not count. Enforced from the moment
   * the job is written, plus an allowance for reading and compiling it: 20 ms, 1 ms per KiB of
   * code, 1 ms per 32 KiB of input. Default 10000, least 1, cap 60000.
   */
  timeoutMs?: number;

  /** What the run may use beyond an empty cell, in MiB: files in its /tmp and page tables included. Default 256, least 16, cap 4096. */
  memoryMb?: number;

  /**
   * What is kept of stdout, and of stderr, in bytes. Over it the middle is left
   * out and the run goes on; past 64 MiB in all it is stopped (`output_limit`).
   * Default 1048576, least 0, cap 16777216.
   */
  maxOutputBytes?: number;

  /** The result as JSON, in bytes; over it the status is `result_too_large`. Default 4194304, least 0, cap 67108864. */
  maxResultBytes?: number;

  /** Values in the result, counted like JSON: parsing many is slow. Default 200000, least 0, cap 5000000. */
  maxResultNodes?: number;

  /** `'text'` hands the result over as JSON text, in `resultText`, and leaves `result` null. Default 'value'. */
  resultAs?: 'value' | 'text';

  /**
   * The program's environment, beside HOME, TMPDIR, LANG and PATH with the cell's own values, which
   * it may replace; nothing is inherited. Half a surrogate pair is refused.
   * Default {}; at most 64 keys and 32768 bytes.
   */
  env?: Record<string, string>;

  /** Refuse (ERR_JAIL_ISOLATION) rather than run behind less. Default: the jail's, or none. */
  minIsolation?: Isolation;

  /** Echoed in the result; at most 128 characters. Default: a random UUID. */
  id?: string;

  /**
   * Whose run it is; at most 128 characters. Tenants take turns in the queue, and
   * a named one never holds the last of `maxConcurrent` slots. Default: none.
   */
  tenant?: string;
}

export interface RunOptions {
  /**
   * Rejects at once with the signal's reason, whatever that is (not a JailError). The run's process
   * is killed behind it: gone within 50 ms where it holds up to some hundred MiB, later where it holds more.
   */
  signal?: AbortSignal;

  /**
   * Called with what the run writes, while it runs: whole characters, in order within each stream,
   * never after the promise has settled. It hears the first `maxOutputBytes` of each stream;
   * `stdout` and `stderr` of the result are what they are without it. A host that is slow to listen
   * does not slow the run: what waits for it comes as one piece. One that throws (or whose promise rejects)
   * is told by a process warning (CODE_JAIL_LISTENER) and hears no more; the run goes on.
   * From a service or jailer that does not stream, everything comes at once, before the result.
   */
  onStdout?: (text: string) => unknown;
  /** As `onStdout`. */
  onStderr?: (text: string) => unknown;
}

/** What became of the code. */
export type RunStatus =
  /** It ended; `result` holds what it returned. */
  | 'ok'
  /** It threw, or ended with an exit code other than 0. */
  | 'error'
  /** It ran longer than `timeoutMs`; `error.line` and `error.stack` say where it was, where that could be had. */
  | 'timeout'
  /** It needed more than `memoryMb`. */
  | 'out_of_memory'
  /** It wrote more than 64 MiB. */
  | 'output_limit'
  /** Its result is nothing that JSON can hold; `error.path` says where. */
  | 'not_serializable'
  /** Its result is over `maxResultBytes`, `maxResultNodes` or 512 levels. */
  | 'result_too_large'
  /** Its process was ended by a signal, or tampered with the result channel. */
  | 'killed';

export interface RunError {
  name: string;
  message: string;
  /**
   * In the program's own text, from 1; null where it is not known. Of a
   * `timeout`: where it was shortly before its end, a tenth of its time and
   * 100 ms at most. Python says so whatever it does, also which task waits;
   * JavaScript while it computes, not while it only waits.
   */
  line: number | null;
  /** From 1; null where it is not known. */
  column: number | null;
  /** That line of the program. */
  sourceLine: string | null;
  /** The program's own frames only. */
  stack: string | null;
  /** Where in the result a value cannot be serialised: `$.items[3].body`. */
  path: string | null;
}

/** Measured from outside the run, where it ran; null where it could not be, or an older service does not say. */
export interface RunUsage {
  /** Waiting for its turn, in ms; here and at the service. */
  queueMs: number | null;
  /** From its turn until the job was written, in ms: a first run boots a runtime here. */
  startMs: number | null;
  /** From then until the result was complete, in ms. */
  runMs: number | null;
  /** In ms, over all its threads. */
  cpuMs: number | null;
  /** Resident memory above that of a cell that has done nothing, in bytes. */
  peakMemoryBytes: number | null;
}

/** Which walls really stood. */
export interface RunJail {
  /** The path taken. */
  backend: 'local' | 'http' | 'socket';
  /** What was verified at its end. */
  isolation: Isolation | 'unverified';
  /** Walls that were tried in this run's own cell, and held. Frozen, shared between results. */
  layers: readonly string[];
  /** Those that were not to be had, and why. Frozen, shared between results. */
  missing: readonly { readonly layer: string; readonly reason: string }[];
  /** `node 22.23.5`, `python 3.11.7`; null where it is not known. */
  runtime: string | null;
  /** `parked`: a cell was waiting. `fork`: one had to be made. `cold`: a runtime was booted for it. null: not said. */
  start: 'parked' | 'fork' | 'cold' | null;
}

export interface IsolatedRunResult<T = AnyResult> {
  id: string;
  /** `status === 'ok'` */
  ok: boolean;
  status: RunStatus;
  /** What the program returned; null if nothing, or if the status is not `ok`. */
  result: T;
  /** Only with `resultAs: 'text'`: the result as JSON; null where there is none. */
  resultText?: string | null;
  /** Only with `collect`: what was asked for and is there, by relative path. */
  files?: Record<string, Uint8Array>;
  /**
   * Only with `collect`: what is not in `files`, and why. `absent`; `link`, also a file with several names; `not_a_file`;
   * `too_large` and `too_many` for what is left; `bad_name`: something in this folder has a name that is no path as above;
   * `unreadable`; `not_ended`: the run was stopped, failed, or called an exit function.
   */
  filesMissing?: {
    path: string;
    reason: 'absent' | 'link' | 'not_a_file' | 'too_large' | 'too_many' | 'bad_name' | 'unreadable' | 'not_ended';
  }[];
  /** Whatever was written, also before a kill. UTF-8; bad bytes are replaced. */
  stdout: string;
  stderr: string;
  /** Bytes left out of the middle; a line there says so too. 0: complete. */
  stdoutDropped: number;
  stderrDropped: number;
  error: RunError | null;
  /** 0, 1 or the program's own; null if it was stopped. */
  exitCode: number | null;
  /** `SIGKILL` where it was stopped, or the signal that ended it; null otherwise. */
  signal: string | null;
  /** `status === 'timeout'` */
  timedOut: boolean;
  usage: RunUsage;
  jail: RunJail;
}

/** A text to be compiled, and not run. The fields mean what they mean in a {@link RunRequest}; no others are taken. */
export type CheckRequest = Pick<
  RunRequest,
  'language' | 'code' | 'timeoutMs' | 'memoryMb' | 'minIsolation' | 'id' | 'tenant'
>;

export interface CodeCheck {
  /** There is nothing in `errors`. */
  ok: boolean;
  /**
   * What keeps the text from being run, as `error` of a run would have it: today at most one,
   * where its compiler stopped. `line` is null for what has no place (a text that its compiler cannot cope with).
   */
  errors: Pick<RunError, 'name' | 'message' | 'line' | 'column' | 'sourceLine'>[];
}

/** A jail of one's own. Every field is optional; what is wrong throws ERR_JAIL_CONFIG. */
export interface JailConfig {
  /**
   * A jailer's Unix socket (Linux): one JSON line out, one JSON object back; see docs/jailer.md.
   * The environment's name is FIRECRACKER_SOCKET. At most 107 bytes.
   */
  socket?: string;
  /**
   * The uid that must listen there (whoever called listen(): under systemd's socket activation root);
   * otherwise nothing is sent. Default: not asked; least 0, cap 4294967294.
   */
  socketOwner?: number;
  /**
   * A sandbox service's base URL, over HTTP/2 where it is offered. https:, or http: to
   * loopback; without user, query and fragment. The environment's name is CODE_SANDBOX_URL.
   */
  url?: string;
  /** Its shared secret; required with `url`. The environment's name is CODE_SANDBOX_TOKEN. */
  token?: string;
  /** PEM: certificates trusted as well, beside Node's own roots and NODE_EXTRA_CA_CERTS. */
  ca?: string;
  /**
   * More headers for the service, or a function that gives them, asked before each run
   * (10 s at most; keep what it fetches): for Cloud Run IAM, `X-Serverless-Authorization`.
   */
  headers?: Record<string, string> | (() => Record<string, string> | Promise<Record<string, string>>);
  /**
   * `metadata`: each run carries an identity token of this machine's service account, from Google
   * Cloud's metadata server (or GCE_METADATA_HOST), in `X-Serverless-Authorization`: for a service behind Cloud Run's IAM.
   * It is kept until shortly before its end; without one nothing is sent (ERR_JAIL_UNAVAILABLE or
   * ERR_JAIL_CONFIG). The environment's name is CODE_SANDBOX_IDENTITY.
   */
  identity?: 'metadata';
  /** Whom the identity token is for. Default: the origin of `url`. The environment's name is CODE_SANDBOX_AUDIENCE. */
  audience?: string;
  /** `http://[user:password@]host:port` that is asked for a tunnel to an https: `url`. The environment's proxies are never used. */
  proxy?: string;
  /** Connections to the service or jailer, and runs there at a time. Default 64, least 1, cap 1024. */
  maxConnections?: number;

  /** Run although files, network or signals cannot be walled off; results then say `unverified`. Default false. */
  allowWeak?: boolean;
  /** `cold` boots a runtime for each run instead of forking one. Default 'parked'. */
  start?: 'parked' | 'cold';
  /** Cells that wait ahead of demand, per language. Default: the number of cores, least 0, cap 64. */
  parked?: number;
  /** `path`: the node to run, default this one. `preload`: modules loaded once, for every run. `modules`: the node_modules folder that has them, default the current folder's. */
  node?: { path?: string; preload?: string[]; modules?: string };
  /** `path`: default python3 of PATH, else of /usr/bin or /usr/local/bin. `preload`: modules imported once, for every run. */
  python?: { path?: string; preload?: string[] };

  /** Runs at a time. Default: twice the number of cores and at least 4; least 1, cap 512. */
  maxConcurrent?: number;
  /** Runs that may wait; one more is ERR_JAIL_OVERLOADED, as are 256 MiB of waiting jobs. Default 1000, least 0, cap 100000. */
  maxQueue?: number;
  /** How long one may wait, in ms; then ERR_JAIL_QUEUE_TIMEOUT. Default 30000, least 1, cap 3600000. */
  queueTimeoutMs?: number;
  /** The sum of `memoryMb` of the runs at a time, in MiB. Default: half of the machine's or the cgroup's; least 16, cap 16777216. */
  maxTotalMemoryMb?: number;
  /** How long a runtime without runs is kept booted, in ms. Default 60000, least 100, cap 86400000. */
  idleMs?: number;

  /** For each request that does not say more. */
  minIsolation?: Isolation;
  /** For requests that leave a field out. */
  defaults?: Pick<
    RunRequest,
    | 'timeoutMs'
    | 'memoryMb'
    | 'maxOutputBytes'
    | 'maxResultBytes'
    | 'maxResultNodes'
    | 'resultAs'
    | 'env'
    | 'tenant'
    | 'minIsolation'
  >;
  /** Lower caps than those of RunRequest. */
  caps?: {
    timeoutMs?: number;
    memoryMb?: number;
    maxOutputBytes?: number;
    maxResultBytes?: number;
    maxResultNodes?: number;
    codeBytes?: number;
    inputBytes?: number;
    filesBytes?: number;
  };
}

export interface JailStats {
  backend: 'local' | 'http' | 'socket';
  /** Waiting now, and running now. */
  queued: number;
  running: number;
  /** Since the jail was made: settled one way or another, and refused for want of room. */
  settled: number;
  refused: number;
  queuedBytes: number;
  runningMemoryMb: number;
  /** Cells that wait for a job. */
  parked: Record<Language, number>;
  /** Cells in all. */
  cells: Record<Language, number>;
  /** Booted runtimes now, and boots so far. */
  zygotes: number;
  zygoteStarts: number;
  /**
   * What became of runs and checks so far: each by its status; `rejected`: the jail failed, or had no room;
   * `aborted`: by its signal. A request that is refused for its form, or while the jail is closed, is in none.
   */
  outcomes: Record<RunStatus | 'rejected' | 'aborted', number>;
  /** How those that have a status began. In neither: where an older peer does not tell. */
  starts: Record<'parked' | 'fork' | 'cold', number>;
}

/** Its functions need no `this`. */
export interface Jail extends AsyncDisposable {
  runCode<T = AnyResult>(request: RunRequest, options?: RunOptions): Promise<IsolatedRunResult<T>>;
  /** As the module's {@link checkCode}, in this jail. */
  checkCode(request: CheckRequest, options?: Pick<RunOptions, 'signal'>): Promise<CodeCheck>;
  /** Boots runtimes (default: JavaScript and Python; TypeScript where it is named) and parks their cells, so that the first run finds them. */
  warm(languages?: Language[]): Promise<void>;
  stats(): JailStats;
  /** Ends every run (ERR_JAIL_CLOSED); resolves when the last process is gone. */
  close(): Promise<void>;
}

export type JailErrorCode =
  /** The request is not one; the message names the field. */
  | 'ERR_JAIL_INVALID_REQUEST'
  /** The configuration, a runtime or the native build is wrong or missing. */
  | 'ERR_JAIL_CONFIG'
  /** The jail could not be started, or died. `retryable` if the code provably never ran. */
  | 'ERR_JAIL_UNAVAILABLE'
  /** The service refused the token, or another uid than `socketOwner` listens at the socket. */
  | 'ERR_JAIL_UNAUTHORIZED'
  /** The peer answered something else than a result. */
  | 'ERR_JAIL_PROTOCOL'
  /** Too much is waiting already. Retryable. */
  | 'ERR_JAIL_OVERLOADED'
  /** It waited longer than `queueTimeoutMs`. Retryable. */
  | 'ERR_JAIL_QUEUE_TIMEOUT'
  /** No answer came in time. */
  | 'ERR_JAIL_DEADLINE'
  /** Less isolation is to be had than was asked for. */
  | 'ERR_JAIL_ISOLATION'
  /** The jail has been closed. */
  | 'ERR_JAIL_CLOSED';

/** The jail itself failed. */
export class JailError extends Error {
  readonly name: 'JailError';
  readonly code: JailErrorCode;
  /** It never ran, and may succeed later. */
  readonly retryable: boolean;
  readonly backend: 'local' | 'http' | 'socket' | null;
  /** When to try again, where that is known. */
  readonly retryAfterMs: number | null;
  /** The status of an HTTP answer that was no result. */
  readonly httpStatus: number | null;
  readonly cause?: unknown;
}

/** Runs code in the jail that the environment selects at the time of the call; without any, the local one. */
export function runCode<T = AnyResult>(request: RunRequest, options?: RunOptions): Promise<IsolatedRunResult<T>>;

/**
 * Syntax and conventions of a text, for an editor's marks: compiled in a cell, as for a run, and nothing of it run.
 * A service older than this refuses it, and has run nothing (ERR_JAIL_INVALID_REQUEST or ERR_JAIL_PROTOCOL).
 */
export function checkCode(request: CheckRequest, options?: Pick<RunOptions, 'signal'>): Promise<CodeCheck>;

/** A jail with a configuration of its own. It starts nothing until its first run. */
export function createJail(config?: JailConfig): Jail;

/** What this host gives, found out by one run per language; of a sandbox service, what it says of itself. */
export function doctor(config?: JailConfig): Promise<Doctor>;

export interface Doctor {
  /** Both languages run in the jail that is selected, or a service says that it is ready; false where that cannot be used. */
  ok: boolean;
  version: string;
  platform: string;
  node: string;
  root: boolean;
  /** What runCode would use now. */
  selects: { backend: 'local' | 'http' | 'socket'; because: string };
  /** libcurl and its TLS; `static`: the addon's own. null without a native build. */
  http: string | null;
  /** Where a sandbox service is selected: what it says of itself. Nothing is run in it. */
  service: {
    url: string;
    ready: boolean;
    protocol: number;
    version: string;
    isolation: Isolation;
    languages: Language[];
    /** What it can beyond runs: `check`, `stream`, `files`. Empty: an older service. */
    features: string[];
    maxTimeoutMs: number;
    maxMemoryMb: number;
  } | null;
  /** Where a jailer's socket is selected: the same of it. null where it does not tell. */
  jailer: {
    socket: string;
    protocol: number;
    version: string;
    isolation: Isolation;
    languages: Language[];
    features: string[];
    maxTimeoutMs: number;
    maxMemoryMb: number;
  } | null;
  /** By one run in each language, locally or by a jailer's socket. */
  runtimes: {
    language: Language;
    ok: boolean;
    runtime: string | null;
    /** Of the interpreter on this host. */
    path: string | null;
    start: 'parked' | 'fork' | 'cold' | null;
    isolation: Isolation | 'unverified' | null;
    backend: 'local' | 'http' | 'socket' | null;
    layers: readonly string[];
    missing: readonly { readonly layer: string; readonly reason: string }[];
    usage: RunUsage | null;
    error: { code: string; message: string } | null;
  }[];
  /** Each layer once, with the remedy for one that is missing. */
  layers: { layer: string; stands: boolean; reason: string | null; remedy: string | null }[];
  error: { code: string; message: string } | null;
}
