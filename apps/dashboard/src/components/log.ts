// What nodes print, while they print it: a bounded number of bounded lines.

export type Stream = 'stdout' | 'stderr';
export interface Line {
  id: number;
  stream: Stream;
  text: string;
  /** Characters of the line that are not in `text`. */
  more: number;
}

const MOST_LINES = 500;
const LONGEST_LINE = 2000;

export class Log {
  lines: Line[] = [];
  /** Lines that were let go from the top. */
  left = 0;
  heard = { stdout: 0, stderr: 0 };
  private open: { stdout: Line | null; stderr: Line | null } = { stdout: null, stderr: null };
  private next = 0;

  push(stream: Stream, text: string) {
    this.heard[stream] += text.length;
    for (let at = 0; at < text.length; ) {
      const end = text.indexOf('\n', at);
      this.append(stream, text, at, end < 0 ? text.length : end);
      if (end < 0) break;
      this.open[stream] = null;
      at = end + 1;
    }
    // In one piece: taking lines off one by one would be quadratic.
    if (this.lines.length > MOST_LINES) {
      this.left += this.lines.length - MOST_LINES;
      this.lines = this.lines.slice(-MOST_LINES);
    }
  }

  private append(stream: Stream, text: string, from: number, to: number) {
    let line = this.open[stream];
    if (!line) {
      line = { id: this.next++, stream, text: '', more: 0 };
      this.lines.push(line);
      if (this.lines.length > MOST_LINES * 4) {
        this.left += this.lines.length - MOST_LINES;
        this.lines = this.lines.slice(-MOST_LINES);
      }
      this.open[stream] = line;
    }
    const room = Math.max(0, LONGEST_LINE - line.text.length);
    line.text += text.slice(from, Math.min(to, from + room));
    line.more += Math.max(0, to - from - room);
  }
}
