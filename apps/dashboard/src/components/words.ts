// Names of states and walls in plain words.
import type { Isolation, NodeOutcome, OutcomeState } from '@/lib/workflows/types';

export type Tone = 'good' | 'bad' | 'warn' | 'jail' | 'calm';

export const STATES: Record<OutcomeState, { label: string; tone: Tone }> = {
  succeeded: { label: 'Succeeded', tone: 'good' },
  failed: { label: 'Failed', tone: 'bad' },
  timed_out: { label: 'Timed out', tone: 'warn' },
  out_of_memory: { label: 'Out of memory', tone: 'warn' },
  output_limit: { label: 'Too much output', tone: 'warn' },
  bad_result: { label: 'Result not usable', tone: 'bad' },
  killed: { label: 'Killed', tone: 'bad' },
  cancelled: { label: 'Cancelled', tone: 'calm' },
  invalid: { label: 'Not accepted', tone: 'jail' },
  refused: { label: 'Refused', tone: 'jail' },
  overloaded: { label: 'Jail is full', tone: 'jail' },
  unavailable: { label: 'Jail unavailable', tone: 'jail' },
};

/** What to do where the jail, and not the code, was the reason. */
export const REMEDIES: Partial<Record<OutcomeState, string>> = {
  invalid: 'Nothing ran. Change what the message names, then run again.',
  refused: 'Nothing ran. A stronger jail must be configured, or less be asked for.',
  overloaded: 'Nothing ran, and nothing is lost. Wait a moment, then run again.',
  unavailable: 'Your code is not the reason. The status page says which jail is configured and whether it answers.',
};

export const isJailTrouble = (outcome: NodeOutcome) => STATES[outcome.state].tone === 'jail';

export const ISOLATION: Record<Isolation | 'unverified', { label: string; text: string }> = {
  process: { label: 'Walled process', text: 'A process behind kernel walls, on the host’s own kernel.' },
  gvisor: { label: 'gVisor', text: 'A kernel in user space stands between the code and the host’s.' },
  microvm: { label: 'microVM', text: 'A virtual machine with a kernel of its own.' },
  unverified: { label: 'Unverified', text: 'Isolation was not proven for this run. Treat it as none.' },
};

export const BACKENDS = { local: 'this machine', http: 'sandbox service', socket: 'jailer socket' } as const;

export const STARTS = {
  parked: 'a parked cell was waiting',
  fork: 'a cell was forked for it',
  cold: 'a runtime was booted for it',
} as const;

const LAYERS: Record<string, string> = {
  'user-namespace': 'Rights inside mean nothing outside',
  'pid-namespace': 'Other processes cannot be named',
  'mount-namespace': 'Mounts of its own',
  'own-root': 'Only the runtime’s own files exist',
  'network-namespace': 'No network at all',
  'ipc-namespace': 'No shared memory with others',
  'uts-namespace': 'A host name of its own',
  'no-capabilities': 'No privileges',
  'no-new-privs': 'No way to gain any',
  landlock: 'Files and sockets denied a second time',
  seccomp: 'Only listed system calls',
  rlimits: 'Limits on memory, files and descriptors',
  cgroup: 'A control group of its own',
  'separate-uid': 'A user id of its own',
};

export const layerText = (layer: string) =>
  Object.hasOwn(LAYERS, layer) ? LAYERS[layer] : 'A wall this page has no words for';
