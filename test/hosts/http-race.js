'use strict';
// Three runs over HTTP against a server that closes the connection 50 ms after
// its second answer; see the test that preloads slow-tcp-info.c.

const { createJail } = require('../..');
const { answerTo, jobOf, rawAnswer, startRawPeer, TOKEN } = require('../helpers/peer.js');

(async () => {
  const peer = await startRawPeer((socket, text, count) => {
    if (count === 2) setTimeout(() => socket.destroy(), 50);
    return rawAnswer(answerTo(jobOf(text)));
  });
  const jail = createJail({ url: peer.url, token: TOKEN });
  const results = [];
  for (let i = 0; i < 3; i++) results.push((await jail.runCode({ language: 'javascript', code: '1' })).result);
  console.log(JSON.stringify({ results, requests: peer.count(), connections: peer.connections() }));
  await jail.close();
  await peer.close();
})();
