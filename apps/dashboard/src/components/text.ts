// What a guest wrote, made fit to be looked at: it may hold anything.

const LONGEST = 2000;
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not reach the screen
const COLOURS = /\u001b\[[0-9;:]*m/g;
// Controls, and what turns the direction of text or cannot be seen.
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

function name(char: string): string {
  const code = char.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  return `\\u{${code.toString(16).toUpperCase()}}`;
}

/** Nothing in it moves a cursor, changes a colour or reverses what follows. */
export const visible = (text: string) => text.replace(COLOURS, '').replace(UNSEEN, name);

export const count = (n: number) => n.toLocaleString('en-US');

/** The beginning of a text, and how many characters more there are. */
export function cut(text: string, longest = LONGEST): { text: string; more: number } {
  if (text.length <= longest) return { text: visible(text), more: 0 };
  return { text: visible(text.slice(0, longest)), more: text.length - longest };
}

export function duration(ms: number | null): string {
  if (ms === null) return 'not measured';
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 100) return `${ms.toFixed(1)} ms`;
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(2)} s`;
}

export function bytes(n: number | null): string {
  if (n === null) return 'not measured';
  if (n < 1024) return `${n} B`;
  return n < 1 << 20 ? `${(n / 1024).toFixed(0)} KiB` : `${(n / (1 << 20)).toFixed(1)} MiB`;
}
