'use strict';
// How many connections there are, and which of them has to go when there are
// too many: the one that has been silent longest without a request that we
// serve. A new one is never refused, so that a crowd of sleepers cannot keep
// health checks out.

class Connections {
  /** @param {number} max */
  constructor(max) {
    this.max = max;
    /** All of them. @type {Set<import('node:net').Socket>} */
    this.all = new Set();
    /** Those without such a request, oldest first. @type {Set<import('node:net').Socket>} */
    this.idle = new Set();
    this.evicted = 0;
  }

  /** @param {import('node:net').Socket} socket */
  add(socket) {
    this.all.add(socket);
    this.idle.add(socket);
    socket.on('close', () => {
      this.all.delete(socket);
      this.idle.delete(socket);
    });
    while (this.all.size > this.max) {
      const oldest = this.idle.values().next().value;
      const victim = oldest ?? socket;
      this.evicted++;
      victim.destroy();
      this.all.delete(victim);
      this.idle.delete(victim);
    }
  }

  /** It has a request whose token is right. */
  busy(socket) {
    this.idle.delete(socket);
  }

  /** And the answer has gone out. */
  rest(socket) {
    if (this.all.has(socket)) this.idle.add(socket);
  }

  destroyIdle() {
    for (const socket of this.idle) socket.destroy();
  }

  destroyAll() {
    for (const socket of this.all) socket.destroy();
  }
}

module.exports = { Connections };
