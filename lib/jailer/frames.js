'use strict';
// Many jobs over one pair of pipes, between the engine `gvisor` and its agent:
// { bytes, number of the job, type } as 32-bit integers, then so many bytes.

const HEAD_BYTES = 12;
const TYPES = { hello: 1, job: 2, cancel: 3, answer: 4, event: 5 };

/** @param {number} type @param {number} number @param {Buffer[]} parts @returns {Buffer[]} */
function frame(type, number, parts) {
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt32LE(
    parts.reduce((sum, part) => sum + part.length, 0),
    0,
  );
  head.writeUInt32LE(number, 4);
  head.writeUInt32LE(type, 8);
  return [head, ...parts];
}

/** Cuts what comes into frames. */
class Frames {
  /**
   * @param {number} maxBytes of one frame
   * @param {(type: number, number: number, body: Buffer) => void} onFrame
   */
  constructor(maxBytes, onFrame) {
    this.maxBytes = maxBytes;
    this.onFrame = onFrame;
    /** @type {Buffer[]} */
    this.parts = [];
    this.size = 0;
    this.wanted = HEAD_BYTES;
  }

  /** @param {Buffer} part @returns {boolean} false: a frame that may not be; nothing more is understood */
  add(part) {
    this.parts.push(part);
    this.size += part.length;
    while (this.size >= this.wanted) {
      const all = this.parts.length === 1 ? this.parts[0] : Buffer.concat(this.parts);
      const bytes = all.readUInt32LE(0);
      if (bytes > this.maxBytes) return false;
      const end = HEAD_BYTES + bytes;
      this.parts = [all];
      this.wanted = end;
      if (this.size < end) return true;
      this.parts = [all.subarray(end)];
      this.size -= end;
      this.wanted = HEAD_BYTES;
      this.onFrame(all.readUInt32LE(8), all.readUInt32LE(4), all.subarray(HEAD_BYTES, end));
    }
    return true;
  }
}

module.exports = { Frames, frame, TYPES };
